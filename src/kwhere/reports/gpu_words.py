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
