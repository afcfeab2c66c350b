"""How doctor comes to the GPUs of the running machine: with what the agent knows of them, and never in its way."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from kwhere.agent.gpu_release import asks_release
from kwhere.apps.gpus import NodeGpus, open_gpus
from kwhere.apps.known_gpus import read_known
from kwhere.core.clock import SystemClock
from kwhere.devices.gpu_settings import GpuSettings
from kwhere.kernel.hostfs import HostFS
from kwhere.local.gpu_handles import ask_released


class GpuAccess:
    """Opens the GPUs, unless the agent that runs here, or its file, says that they are given back."""

    def __init__(
        self,
        settings: GpuSettings,
        fs: HostFS,
        state_dir: Path | None,
        ask_agent: Callable[[dict[str, Any]], dict[str, Any]] | None,
    ) -> None:
        """`state_dir` has the GPUs of earlier days: a lost one does not tell its model any more."""
        self._settings, self._fs, self._state_dir, self._ask_agent = settings, fs, state_dir, ask_agent

    def released(self, *, names: bool = True) -> str:
        """Return since when and by whom they are given back, in words; empty where they may be opened. Asks anew.

        Without `names` nobody's name is in it: it may be sent to strangers.
        """
        if self._fs.is_recorded or self._ask_agent is None:
            return ""
        said = ask_released(self._ask_agent, datetime.now().astimezone(), names=names)
        file = self._settings.release_file
        if not said and file is not None and asks_release(file):
            return f"released by {file}"
        return said

    def open(self) -> tuple[NodeGpus, ...]:
        """Return a source for each vendor that has, or had, a GPU here. Close them."""
        known = read_known(self._state_dir, SystemClock().utc_ns()) if self._state_dir is not None else []
        return open_gpus(self._settings, self._fs, [one.device for one in known], released=bool(self.released()))
