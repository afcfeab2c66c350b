"""A BMC on the network with DCMI power, by pyghmi: `python tests/dcmi_bmc.py PORT STATE_FILE`.

The file holds a completion code (hex), a state byte (hex) and watts, e.g. `00 40 345`; a missing file is no answer.
User `power`, password `secret`.
"""

import struct
import subprocess
import sys
import time
from pathlib import Path
from socket import AF_INET, SOCK_DGRAM, socket
from typing import Any

USER = "power"
PASSWORD = "secret"


class DcmiBmc:
    """A running BMC process, and what it says."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state_file = directory / "bmc.state"
        self.says(345)
        with socket(AF_INET, SOCK_DGRAM) as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.password_file = directory / "bmc.password"
        self.password_file.write_text(PASSWORD)
        self.config_file = directory / "freeipmi.conf"
        self.config_file.write_text(f"username {USER}\npassword {PASSWORD}\n")
        self.config_file.chmod(0o600)
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(self.port), str(self.state_file)], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert "listens" in self._process.stdout.readline()

    def says(self, watts: int, *, state: int = 0x40, code: int = 0) -> None:
        """Answer with these from now on."""
        fresh = self.state_file.with_suffix(".new")
        fresh.write_text(f"{code:x} {state:x} {watts}")
        fresh.replace(self.state_file)

    def ipmitool(self) -> list[str]:
        """Return the arguments by which ipmitool reaches it, the password in a file."""
        where = ["-I", "lanplus", "-H", "127.0.0.1", "-p", str(self.port)]
        return [*where, "-U", USER, "-f", str(self.password_file)]

    def freeipmi(self) -> list[str]:
        """Return the arguments by which FreeIPMI reaches it, user and password in a file."""
        return [f"--config-file={self.config_file}", "-D", "LAN_2_0", "-h", f"127.0.0.1:{self.port}"]

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate(timeout=10)


def serve(port: int, state: Path) -> None:
    """Answer until killed."""
    from pyghmi.ipmi import bmc  # only the BMC's own process needs it

    class Bmc(bmc.Bmc):  # type: ignore[misc]  # pyghmi has no types
        def handle_raw_request(self, request: dict[str, Any], session: Any) -> Any:
            if request["netfn"] != 0x2C:
                return super().handle_raw_request(request, session)
            code, bits, watts = state.read_text().split()
            if int(code, 16):
                return session.send_ipmi_response(code=int(code, 16))
            if request["command"] == 0x02:
                figures = struct.pack("<HHHHIIB", int(watts), 3, 900, 345, int(time.time()), 5000, int(bits, 16))
                return session.send_ipmi_response(data=[0xDC, *figures])
            if request["command"] == 0x01:
                return session.send_ipmi_response(data=[0xDC, 0x01, 0x05, 0x02, 0x00, 0x01, 0x07])
            return session.send_ipmi_response(code=0xC1)

    server = Bmc({USER: PASSWORD}, port=port, address="127.0.0.1")
    sys.stdout.write("listens\n")
    sys.stdout.flush()
    server.listen()


if __name__ == "__main__":
    serve(int(sys.argv[1]), Path(sys.argv[2]))
