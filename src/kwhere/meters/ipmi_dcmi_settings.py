"""Settings of the IPMI DCMI meter (`meters.ipmi_dcmi.…`)."""

from enum import StrEnum
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from kwhere.devices.dcmi_programs import CAPMC, FREEIPMI, IPMITOOL, IPMIUTIL, Program, named_secret
from kwhere.meters.node_url import NodeNameRule, check_placeholders


class Way(StrEnum):
    """How the BMC is asked."""

    AUTO = "auto"
    NATIVE = "native"
    FREEIPMI = "freeipmi"
    IPMITOOL = "ipmitool"
    IPMIUTIL = "ipmiutil"
    CAPMC = "capmc"


PROGRAMS: dict[Way, Program] = {
    Way.FREEIPMI: FREEIPMI,
    Way.IPMITOOL: IPMITOOL,
    Way.IPMIUTIL: IPMIUTIL,
    Way.CAPMC: CAPMC,
}


class IpmiDcmiSettings(BaseModel):
    """How this machine's BMC is asked for the power of the whole node, and what lies inside that power."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    way: Way = Field(
        default=Way.AUTO,
        description="auto (the kernel's /dev/ipmiN where there is one: by ourselves, else by FreeIPMI, ipmitool or"
        " ipmiutil; no program runs on a machine without it), native (by ourselves only), or one program: freeipmi,"
        " ipmitool, ipmiutil, capmc (power of a whole Cray system: for a system of one node only).",
    )
    device: Path | None = Field(
        default=None, description="Device of the kernel's IPMI driver; default: the first of /dev/ipmi0, /dev/ipmi1, …"
    )
    command: tuple[str, ...] = Field(
        default=(),
        description="The program, where it is not on the path or needs help: `[sudo, -n, /usr/sbin/ipmi-dcmi]`. For a"
        " way that names a program.",
    )
    arguments: tuple[str, ...] = Field(
        default=(),
        description="More arguments of the program, e.g. for a BMC on the network: `[-I, lanplus, -H, '{short}-bmc',"
        " -U, power, -f, /etc/kwhere/bmc.password]`. {node} is the node's name, {short} the part before its first dot,"
        " {name} what node_name makes of it. Passwords and keys are refused here: every user sees them in the list of"
        " processes. For a way that names a program.",
    )
    node_name: NodeNameRule = Field(default=NodeNameRule(), description="How {name} is made from the node's name.")
    environment: tuple[str, ...] = Field(
        default=(),
        description="Names of the agent's environment variables that the program gets too, e.g. IPMI_PASSWORD for"
        " `ipmitool -E`.",
    )
    includes_gpus: bool = Field(
        default=True, description="Whether the BMC's power holds the GPUs; false where they have a supply of their own."
    )
    refresh_seconds: float = Field(
        default=10.0,
        ge=1,
        le=3600,
        description="Seconds from one question to the next; power is held for three of these. A BMC is slow: asking it"
        " every second may slow down its other work.",
    )
    timeout_seconds: float = Field(
        default=10.0, ge=0.1, le=300, description="Longest time for one answer by one way, in seconds."
    )

    @field_validator("arguments")
    @classmethod
    def _names_the_node(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for argument in value:
            check_placeholders(argument)
        return value

    @model_validator(mode="after")
    def _fits_its_way(self) -> Self:
        program = PROGRAMS.get(self.way)
        if program is None and (self.command or self.arguments or self.environment):
            raise ValueError(
                f"expected a way that names a program ({', '.join(PROGRAMS)}) for command, arguments or environment,"
                f" found {self.way.value}"
            )
        if program is not None and (flag := named_secret(program, (*self.command, *self.arguments))):
            raise ValueError(
                f"expected no password or key among the arguments, found {flag}: every user sees it in the list of"
                " processes. Name a file or the environment instead (ipmitool -f or -E, FreeIPMI --config-file)"
            )
        return self
