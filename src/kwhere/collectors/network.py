"""What the node's network interfaces carried, from `/proc/1/net/dev`, or `/proc/net/dev` where that is closed."""

import re
from collections.abc import Iterator

from pydantic import Field

from kwhere.collectors.collector import CollectorContext, CollectorPlugin, CollectorSettings
from kwhere.collectors.patterns import Pattern
from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.metrics import Kind, MetricSpec, Sample
from kwhere.kernel.hostfs import HostFS, KeptFile
from kwhere.kernel.netdev import parse_net_dev

RECEIVE_BYTES = MetricSpec(
    "kwhere_node_network_receive_bytes_total", Kind.COUNTER, "Bytes that an interface received.", ("interface",)
)
TRANSMIT_BYTES = MetricSpec(
    "kwhere_node_network_transmit_bytes_total", Kind.COUNTER, "Bytes that an interface sent.", ("interface",)
)
RECEIVE_ERRORS = MetricSpec(
    "kwhere_node_network_receive_errors_total", Kind.COUNTER, "Packets received damaged.", ("interface",)
)
TRANSMIT_ERRORS = MetricSpec(
    "kwhere_node_network_transmit_errors_total", Kind.COUNTER, "Packets that could not be sent.", ("interface",)
)
INTERFACES = MetricSpec(
    "kwhere_node_network_interfaces",
    Kind.GAUGE,
    "Interfaces that were found; more than are shown where the limit cuts.",
)

_VIRTUAL = (
    r"lo|(veth|cali|tap|tun|vnet|qbr|qvb|qvo|qr-|qg-|docker|br-|cni|cbr|flannel|virbr|vxlan|lxc|lxd|dummy|ifb|ovs-"
    r"|cilium_|kube-|nodelocaldns|weave|podman|gre|sit|ip6tnl|wg).*"
)


class NetworkSettings(CollectorSettings):
    """Which interfaces are shown."""

    exclude: Pattern = Field(
        default=_VIRTUAL,
        description="Regular expression of interface names left out: by default the loopback, and the ends, bridges "
        "and tunnels of containers and virtual machines, which count again what a real interface carries.",
    )
    limit: int = Field(default=2, ge=0, description="Number of interfaces shown, first by name; 0 = all.")
    errors: bool = Field(default=False, description="Whether damaged and unsent packets are shown.")


class NetworkCollector:
    """Keeps the file open."""

    def __init__(self, context: CollectorContext, settings: NetworkSettings) -> None:
        """Open the file. Raises Unavailable."""
        self._settings = settings
        self._exclude = re.compile(settings.exclude)
        self._file = _open(context.host)

    def collect(self) -> Iterator[Sample]:
        """Yield bytes of each interface in both directions, errors on request."""
        readings = {reading.interface: reading for reading in parse_net_dev(self._file.read().decode(errors="replace"))}
        found = [readings[name] for name in sorted(readings) if not self._exclude.fullmatch(name)]
        yield Sample(INTERFACES, (), len(found))
        for reading in found[: self._settings.limit or None]:
            label = (reading.interface,)
            yield Sample(RECEIVE_BYTES, label, reading.receive_bytes)
            yield Sample(TRANSMIT_BYTES, label, reading.transmit_bytes)
            if self._settings.errors:
                yield Sample(RECEIVE_ERRORS, label, reading.receive_errors)
                yield Sample(TRANSMIT_ERRORS, label, reading.transmit_errors)

    def close(self) -> None:
        """Give back the file."""
        self._file.close()


def _open(host: HostFS) -> KeptFile:
    """Return the interfaces of the first process, else our own: an agent in a pod sees the node's processes."""
    try:
        return host.keep("proc/1/net/dev")
    except (Unavailable, SourceError):  # hidden from us, or a recorded host
        return host.keep("proc/net/dev")


plugin = CollectorPlugin(
    name="network",
    summary="Bytes of the node's network interfaces; errors on request.",
    settings_class=NetworkSettings,
    specs=(RECEIVE_BYTES, TRANSMIT_BYTES, RECEIVE_ERRORS, TRANSMIT_ERRORS, INTERFACES),
    build=NetworkCollector,
)
