"""A certificate authority for tests, made with the openssl binary."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Authority:
    """Makes certificates of its own for names."""

    directory: Path

    @property
    def ca_file(self) -> Path:
        return self.directory / "ca.pem"

    def issue(self, name: str) -> tuple[Path, Path]:
        """Return certificate and key of `name`, also good for 127.0.0.1 and both ends."""
        stem = self.directory / name
        request, key, certificate = (stem.with_suffix(suffix) for suffix in (".csr", ".key", ".pem"))
        if certificate.exists():
            return certificate, key
        extensions = stem.with_suffix(".ext")
        extensions.write_text(f"subjectAltName=DNS:{name},IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n")
        new = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-batch"]
        _run([*new, "-subj", f"/CN={name}", "-keyout", str(key), "-out", str(request)])
        sign = [
            "openssl",
            "x509",
            "-req",
            "-days",
            "30",
            "-in",
            str(request),
            "-CA",
            str(self.ca_file),
            "-CAcreateserial",
        ]
        _run([*sign, "-CAkey", str(self.directory / "ca.key"), "-extfile", str(extensions), "-out", str(certificate)])
        return certificate, key


def make_authority(directory: Path, name: str = "test authority") -> Authority:
    """Return a new authority whose files are kept in `directory`."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the service openssl: make test-services")
    new = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "30",
    ]
    uses = ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    files = ["-keyout", str(directory / "ca.key"), "-out", str(directory / "ca.pem")]
    _run([*new, "-subj", f"/CN={name}", *uses, *files])
    return Authority(directory)


def _run(argv: list[str]) -> None:
    subprocess.run(argv, check=True, capture_output=True)
