"""Settings of a client of one device: a BMC, a PDU, or a store of their readings."""

import re
from pathlib import Path

from pydantic import Field, field_validator, model_validator

from kwhere.transport.settings import HttpClientSettings

_SHA256 = re.compile(r"[0-9a-f]{64}")


class DeviceClientSettings(HttpClientSettings):
    """How a device is spoken to. Its password is in a file or a variable of the environment, never in the settings."""

    connect_timeout_seconds: float = Field(default=5.0, gt=0, description="Longest wait for a connection, in seconds.")
    read_timeout_seconds: float = Field(default=20.0, gt=0, description="Longest wait for the next bytes, in seconds.")
    total_timeout_seconds: float = Field(
        default=30.0, gt=0, le=600, description="Longest time for one whole answer, in seconds."
    )
    max_answer_bytes: int = Field(
        default=4 * 1024 * 1024, gt=0, description="Largest answer taken in, in bytes after decompression."
    )
    username: str | None = Field(default=None, min_length=1, max_length=255, description="Name of the device's user.")
    password_file: Path | None = Field(
        default=None, description="File whose first line is the password of that user; keep it mode 0600."
    )
    password_environment: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="Variable of the environment that holds the password.",
    )
    tls_verify: bool = Field(
        default=True,
        description="Whether the device's certificate must be signed by a trusted authority. Without that, and without"
        " tls_sha256, whoever sits on the network can take the password.",
    )
    tls_sha256: str | None = Field(
        default=None,
        description="SHA-256 of the device's certificate (DER), in hex with or without colons: that one is trusted,"
        " whoever signed it, and no other.",
    )

    @field_validator("tls_sha256")
    @classmethod
    def _plain_hex(cls, value: str | None) -> str | None:
        if value is None:
            return None
        digits = value.replace(":", "").strip().lower()
        if not _SHA256.fullmatch(digits):
            raise ValueError("expected 64 hex digits, as `openssl x509 -fingerprint -sha256` shows")
        return digits

    @model_validator(mode="after")
    def _consistent(self) -> "DeviceClientSettings":
        if self.password_file is not None and self.password_environment is not None:
            raise ValueError("expected one of password_file and password_environment, found both")
        has_password = self.password_file is not None or self.password_environment is not None
        if has_password != (self.username is not None):
            raise ValueError("expected username together with password_file or password_environment")
        if self.username is not None and ":" in self.username:
            raise ValueError("username: expected a name without a colon")
        if self.username is not None and self.token_file is not None:
            raise ValueError("expected token_file or username, found both")
        return self
