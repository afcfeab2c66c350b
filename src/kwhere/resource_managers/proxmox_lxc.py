"""Proxmox VE: its containers, which agents know as units of LXC by their number."""

from kwhere.core.clock import Clock
from kwhere.discovery.containers import LXC
from kwhere.resource_managers.plugin import ManagerPlugin
from kwhere.resource_managers.proxmox import ProxmoxManager
from kwhere.resource_managers.proxmox_settings import ProxmoxSettings


def build(settings: ProxmoxSettings, clock: Clock) -> ProxmoxManager:
    """Return the manager of a cluster's containers. Raises ConfigError."""
    return ProxmoxManager(settings, clock, LXC)


plugin = ManagerPlugin(
    name="proxmox-lxc",
    summary="Containers of a Proxmox VE cluster, with pools as projects and owners by tag.",
    settings_class=ProxmoxSettings,
    build=build,
    unit_manager=LXC,
)
