"""What the local socket says of GPU handles, and does with them: `kwhere agent gpu`."""

from kwhere.agent.gpu_release import GpuRelease


def gpu_view(release: GpuRelease) -> dict[str, object]:
    """Return whether handles are released, by whom and how long yet, and how each vendor's library stands."""
    state = release.state()
    return {
        "released": state.released,
        "by": state.by or None,
        "uid": state.uid,
        "seconds": state.seconds,
        "left_seconds": state.left_seconds,
        "vendors": [
            {
                "vendor": found.vendor.value,
                "up": found.library.up,
                "reason": found.library.reason,
                "driver": found.library.driver,
                "gpus": len(found.devices),
                "gpus_up": sum(one.up for one in found.devices),
            }
            for found in (gpus.snapshot() for gpus in release.gpus)
        ],
    }
