"""The whole node by its BMC over Redfish, directly or through a redfish-proxy; asked on a thread of its own."""

from collections.abc import Sequence
from threading import Lock, Thread
from typing import TYPE_CHECKING

from kwhere.core.errors import ConfigError, Unavailable
from kwhere.core.terms import Component, Method
from kwhere.devices.redfish_words import PowerResource
from kwhere.meters.background import BackgroundMeter, BlockingSource, SlowFacts
from kwhere.meters.meter import PLATFORM, MeterContext, Plugin, Reading
from kwhere.meters.node_url import node_url
from kwhere.meters.redfish_settings import RedfishSettings
from kwhere.meters.sample_clock import CounterClock, SampleClock

if TYPE_CHECKING:
    from kwhere.devices.redfish_chassis import RedfishBmc

SOURCE = "redfish"
STUCK_SECONDS = 300.0
"""A BMC may average over minutes; a reading whose own time has not moved for longer is none."""
LOGOUT_WAIT_SECONDS = 1.0
_GIVE_UP_MARGIN_SECONDS = 5.0


class RedfishSource(BlockingSource):
    """Asks one BMC for the power of its node, or for its energy counter."""

    def __init__(self, bmc: "RedfishBmc", settings: RedfishSettings, context: MeterContext) -> None:
        self._bmc = bmc
        self._budget_seconds = settings.client.total_timeout_seconds
        self._stuck_seconds = max(STUCK_SECONDS, 3 * settings.refresh_seconds)
        self._clock_ns = context.clock_ns
        self._samples: dict[str, SampleClock] = {}
        self._counters: dict[str, CounterClock] = {}
        self._lock = Lock()
        self._closed = False

    def ask(self) -> Sequence[Reading]:
        """Return the sum of the chassis' powers, or each one's counter. Raises Unavailable, SourceError, NoData."""
        with self._lock:
            if self._closed:
                raise Unavailable("closed", f"{SOURCE}: the agent ends")
            figures = self._bmc.read(self._budget_seconds)
        now_ns = self._clock_ns()
        counters = {name: figure.energy_uj for name, figure in figures.items() if figure.energy_uj is not None}
        if counters:
            return [
                Reading(PLATFORM, name, self._counters.setdefault(name, CounterClock()).time_of(uj, now_ns), uj)
                for name, uj in counters.items()
            ]
        powers = {name: (figure.power_uw or 0, figure.stamp) for name, figure in figures.items()}
        times = [
            self._samples.setdefault(name, SampleClock(name, self._stuck_seconds)).time_of(power, stamp, now_ns)
            for name, (power, stamp) in powers.items()
        ]
        # a sum is as old as its oldest part
        return [Reading(PLATFORM, "+".join(powers), min(times), power_uw=sum(power for power, _ in powers.values()))]

    def close(self) -> None:
        """End the session, within a second; after a question under way, which is not waited for."""
        self._closed = True
        thread = Thread(target=self._log_out, name="redfish-logout", daemon=True)
        thread.start()
        thread.join(LOGOUT_WAIT_SECONDS)

    def _log_out(self) -> None:
        with self._lock:
            self._bmc.close()


def build(context: MeterContext) -> BackgroundMeter:
    """Return the meter; the BMC is not asked yet. Raises Unavailable: unconfigured, recorded, credentials."""
    settings = context.settings.redfish
    if settings.url is None:
        raise Unavailable("unconfigured", "meters.redfish.url: is not set")
    if context.fs.is_recorded:
        raise Unavailable("recorded", f"{SOURCE}: a recorded host has no BMC that could be asked")
    url = node_url(settings.url, settings.node_name, context.node)
    budget_seconds = settings.client.total_timeout_seconds
    covers = frozenset(Component) if settings.includes_gpus else frozenset(Component) - {Component.GPU}
    facts = SlowFacts(
        SOURCE,
        (PLATFORM,),
        covers,
        refresh_seconds=settings.refresh_seconds,
        give_up_seconds=budget_seconds + _GIVE_UP_MARGIN_SECONDS,
        p_max_uw=context.settings.platform_headroom_uw,
        method=Method.COUNTER if settings.resource is PowerResource.ENERGY else Method.INTEGRATED,
    )
    return BackgroundMeter(facts, RedfishSource(_bmc(url, settings), settings, context), context.clock_ns)


def _bmc(url: str, settings: RedfishSettings) -> "RedfishBmc":
    # the HTTP client costs memory that an agent without a BMC to ask does without
    from kwhere.devices.redfish_chassis import PowerChoice, RedfishBmc
    from kwhere.devices.redfish_client import RedfishClient

    choice = PowerChoice(settings.chassis, settings.resource, settings.power_control, settings.sensor)
    try:
        return RedfishBmc(RedfishClient(url, settings.client, settings.auth), choice)
    except ConfigError as error:
        raise Unavailable("credentials", f"meters.redfish: {error}") from error


plugin = Plugin(SOURCE, build)
