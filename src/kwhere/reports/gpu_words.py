"""GPUs in words: who says who holds one, what slows it down, what it needs. Pages and command line share it."""

_HOLDER_WORDS = {
    "prolog": "a file of the scheduler's prolog",
    "pod_resources": "the kubelet's pod-resources",
    "dra": "dynamic resource allocation",
    "cgroup": "its cgroup's device rules",
    "environ": "the environment of its processes",
    "libvirt": "libvirt",
    "oar": "OAR's resource files",
    "processes": "its processes on the GPU",
}


def holder_words(source: str) -> str:
    """Return how it is known who holds a GPU."""
    return _HOLDER_WORDS.get(source, source or "not said")


_CAUSE_WORDS = {
    "power": "its power cap",
    "power_cap": "its power cap",
    "thermal": "heat",
    "sw_thermal": "heat (the driver's limit)",
    "hw_thermal": "heat (the chip's own protection)",
    "hw_power_brake": "the power brake of its server",
    "hw_slowdown": "the chip's own protection: heat or power",
    "sync_boost": "sync boost: the slowest GPU of its group",
    "board_limit": "a limit of the board",
    "low_utilization": "too little work",
    "reliability": "a reliability limit of its voltage",
    "application_clocks": "the clocks set for applications",
    "clocks_setting": "the clocks set for applications",
    "base_clocks": "staying under its base clocks",
    "display_clocks": "its display",
    "gpu_idle": "having nothing to do",
}


def cause_words(cause: str) -> str:
    """Return what holds a GPU's clocks down."""
    return _CAUSE_WORDS.get(cause, cause.replace("_", " "))


_RECOVERY_WORDS = {
    0: "",
    1: "needs a GPU reset",
    2: "needs a reboot of its node",
    3: "must be drained of peer-to-peer work",
    4: "must be drained and reset",
    5: "needs IMEX recovered",
}


def recovery_words(action: float) -> str:
    """Return what the driver asks for; empty for nothing."""
    return _RECOVERY_WORDS.get(int(action), f"needs recovery action {int(action)}")


_DOWN_WORDS = {
    "lost": "fell off the bus",
    "reset_required": "needs a reset",
    "timeout": "does not answer",
    "absent": "is missing: it was here before",
    "driver_mismatch": "driver and library are of different versions",
    "asleep": "sleeps: it is not woken to be measured",
    "released": "was released on request",
    "error": "answers with errors",
}


def down_words(reason: str) -> str:
    """Return why a GPU gives no figures."""
    return _DOWN_WORDS.get(reason, reason.replace("_", " ") or "no reason told")
