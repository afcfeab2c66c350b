"""A laptop on its batteries: what they give is what the whole machine draws. On the mains nothing is known of that."""

from collections.abc import Sequence

from kwhere.core.errors import Unavailable
from kwhere.core.terms import Component, Method
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.power_supply import SUPPLY_DIRECTORY, Charge, Supplies, read_supplies
from kwhere.meters.asked import AskedMeter
from kwhere.meters.meter import PLATFORM, Domain, Meter, MeterContext, Plugin, Reading

REFRESH_SECONDS = 5.0
"""Embedded controllers have a new value every 1 to 30 s; each question costs them a slow bus transfer."""
GIVE_UP_SECONDS = 20.0
LARGEST_UW = 300_000_000
"""No laptop battery gives more; drivers without a value say 2^16 or 2^32 of some unit."""
COVERS = frozenset(Component)


class BatteryMeter:
    """The power that all batteries give. A controller may take its time to answer."""

    source = "battery"
    method = Method.INTEGRATED
    domains: tuple[Domain, ...] = (PLATFORM,)
    covers = COVERS
    refresh_seconds = REFRESH_SECONDS
    needs_proof = False

    def __init__(self, fs: HostFS) -> None:
        self._fs = fs

    def read(self, now_ns: int) -> Sequence[Reading]:
        """Return the power drawn from all batteries. Raises Unavailable: on_ac, unsupported, absent."""
        try:
            power_uw = discharge_uw(read_supplies(self._fs))
        except Unavailable as error:  # plugs are pulled at any time
            raise Unavailable(error.reason, str(error), retry_after_seconds=REFRESH_SECONDS) from error
        return [Reading(PLATFORM, "batteries", now_ns, power_uw=power_uw)]

    def p_max_uw(self, domain: Domain) -> int:
        """Return what a laptop may draw beside its components."""
        return LARGEST_UW

    def close(self) -> None:
        """Hold nothing."""


def discharge_uw(supplies: Supplies) -> int:
    """Return the microwatts that all batteries give together, while they alone feed the machine.

    Raises Unavailable: `absent` without a battery, `on_ac` while a charger is connected or a battery is charged or
    idle, `unsupported` where a battery does not say how much it gives. It is never 0: a machine that reads this runs.
    """
    if not supplies.batteries:
        raise Unavailable("absent", f"{SUPPLY_DIRECTORY}: expected a battery, found none")
    if supplies.charger is not None:
        raise Unavailable("on_ac", f"{SUPPLY_DIRECTORY}/{supplies.charger}: connected, the batteries say nothing now")
    given_uw = 0
    for battery in supplies.batteries:
        place = f"{SUPPLY_DIRECTORY}/{battery.name}"
        if battery.charge is Charge.DISCHARGING:
            if battery.power_uw is None or battery.power_uw >= LARGEST_UW:
                raise Unavailable("unsupported", f"{place}: expected a power below 300 W, found {battery.power_uw} uW")
            given_uw += battery.power_uw
        elif battery.charge is Charge.CHARGING or battery.power_uw:
            raise Unavailable("on_ac", f"{place}: expected it discharging or at rest, found it {battery.charge}")
    if not any(battery.charge is Charge.DISCHARGING for battery in supplies.batteries):
        raise Unavailable("on_ac", f"{SUPPLY_DIRECTORY}: no battery is discharging")
    if given_uw <= 0:
        raise Unavailable("unsupported", f"{SUPPLY_DIRECTORY}: expected a power above 0, found 0 from all batteries")
    return given_uw


def build(context: MeterContext) -> Meter:
    """Return the meter of the batteries, also while it has nothing to say. Raises Unavailable: absent."""
    if not read_supplies(context.fs).batteries:
        raise Unavailable("absent", f"{SUPPLY_DIRECTORY}: expected a battery, found none")
    meter = BatteryMeter(context.fs)
    return meter if context.fs.is_recorded else AskedMeter(meter, GIVE_UP_SECONDS, context.clock_ns)


plugin = Plugin("battery", build)
