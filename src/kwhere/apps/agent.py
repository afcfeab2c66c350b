"""Puts an agent together: the one place where its concrete parts meet."""

import hashlib
import json
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any

import structlog
from pydantic import ValidationError

from kwhere._version import __version__
from kwhere.agent import neighbour
from kwhere.agent.pace import Pace
from kwhere.agent.parented_journal import ParentedJournal
from kwhere.agent.runtime import Agent
from kwhere.agent.sampler import SamplerThread
from kwhere.agent.settings import AgentSettings
from kwhere.apps.agent_settings import AgentConfig
from kwhere.apps.calibration import with_calibration
from kwhere.apps.gpus import PASSED_ON, NodeGpus, open_gpus, start_gpus
from kwhere.apps.guests import guest_book, slot_sink
from kwhere.apps.known_gpus import read_known, write_known
from kwhere.collectors.collector import AnyPlugin, CollectorContext, CollectorSettings
from kwhere.collectors.frequency import FrequencySettings
from kwhere.collectors.registry import find_collectors
from kwhere.collectors.runner import CollectorRunner
from kwhere.core.clock import Clock
from kwhere.core.errors import ConfigError, SourceError, Unavailable
from kwhere.core.metrics import Sample
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.devices.gpu import GpuSource
from kwhere.discovery.choose import open_unit_sources
from kwhere.discovery.gpu_holders import NodeMapping, build_mapping
from kwhere.discovery.unit_source import UnitSource
from kwhere.energy.baseline import IdleBaseline
from kwhere.energy.gpu_idle import gpu_idle_table_uw
from kwhere.energy.limits import gpu_limit_uw
from kwhere.energy.placement import Topology
from kwhere.kernel.frequency import FrequencyMonitor
from kwhere.kernel.hostfs import HostFS, raise_descriptor_limit
from kwhere.kernel.identity import boot_id, machine_id, product_uuid, read_cpu_model
from kwhere.kernel.memory import parse_meminfo
from kwhere.kernel.pci import find_pci_gpus
from kwhere.kernel.recorded import clock_of
from kwhere.kernel.stat import StatFile
from kwhere.kernel.topology import read_topology
from kwhere.ledger.epoch_facts import EpochFacts
from kwhere.ledger.journal import Journal
from kwhere.ledger.journal_store import JournalIdentity
from kwhere.meters.meter import PLATFORM, Domain, MeterContext
from kwhere.meters.model import ModelMeter, idle_table_uw
from kwhere.meters.registry import Meters, build_meters, is_worth_a_series
from kwhere.meters.sources import COMPONENT_ORDER
from kwhere.sampling.energy_book import EnergyBook
from kwhere.sampling.gpu_book import GpuBook
from kwhere.sampling.meter_bank import COMPONENT_OF, MeterBank
from kwhere.sampling.node_cpu import NodeCpu
from kwhere.sampling.platform_book import PlatformBook
from kwhere.sampling.saved import SavedState
from kwhere.sampling.slot_sink import SlotSink
from kwhere.sampling.step import NodeParts, Sampler, SlotTiming
from kwhere.sampling.totals import TotalsBoard
from kwhere.sampling.weighing import Weigher

_MICROWATTS = 1_000_000
_IDLE_KEYS = frozenset({"cpu", "dram", "gpu", "other"})

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this node is."""

    node: str
    machine_id: str
    boot_id: str
    product_uuid: str | None


@dataclass(frozen=True, slots=True)
class BuiltAgent:
    """An agent and the parts that its faces are made from."""

    agent: Agent
    journal: Journal | None
    host: HostFS
    clock: Clock
    identity: Identity
    gpus: Sequence[NodeGpus] = ()
    """Whose handles can be given back."""

    def once(self, interval_seconds: float) -> list[Sample]:
        """Return the samples of two steps: of a recorded host's two moments, else `interval_seconds` apart."""

        def next_moment() -> None:
            if self.host.is_recorded:
                if self.host.has_two_moments:
                    self.host.select_snapshot(1)
            else:
                Event().wait(interval_seconds)

        return self.agent.once(next_moment)


def build_agent(config: AgentConfig, state_dir: Path | None) -> BuiltAgent:
    """Return an agent that is ready to start. Without a state directory its slots are forgotten (`--once`).

    Raises ConfigError, Unavailable where not even /proc/stat can be read, JournalError (network, locked).
    """
    timing, chosen = check_settings(config)
    raise_descriptor_limit()
    host = HostFS(config.path.procfs, config.path.sysfs, config.path.cgroupfs)
    if host.is_recorded:  # each of its moments is shown as it is, however close they lie
        timing = replace(timing, detail_ns=0)
    clock = clock_of(host)
    identity = identify(config.agent, host)
    stat = StatFile(host)
    cpu = NodeCpu(topology_of(host), lambda: topology_of(host))
    context = replace(meter_context(host, cpu), settings=config.meters, clock_ns=clock.monotonic_ns, node=identity.node)
    known = read_known(state_dir, clock.utc_ns()) if state_dir is not None else []
    watches = open_gpus(config.gpu, host, [one.device for one in known])
    context = with_calibration(replace(context, gpus=watches), state_dir or config.agent.state)
    meters = build_meters(context)
    paced = _paced(config.agent, host, clock)
    bank = meter_bank(meters, paced)
    units = open_unit_sources(host, config.units, clock, cgroups_version=config.cgroups.version)
    _settle_in(config.agent, state_dir)
    start_gpus(watches, config.gpu.start_seconds)
    if state_dir is not None and watches:
        write_known(state_dir, known, [watch.snapshot() for watch in watches], clock.utc_ns())
    mapping = gpu_mapping(config, host, watches, units, clock)
    gpus = GpuBook(watches, mapping.holders) if mapping is not None else None
    journal = _open_journal(config, identity, bank, cpu, clock, state_dir) if state_dir is not None else None
    board, sink = TotalsBoard(), slot_sink(journal, meters)
    sampler = Sampler(
        NodeParts(
            clock=clock,
            boot_id=identity.boot_id,
            read_stat=stat.read,
            cpu=cpu,
            units=units,
            bank=bank,
            energy=energy_book(paced, meters, context, bank, gpus),
            weigher=Weigher(context.memory_bytes or 0),
            sink=sink,
            board=board,
            gpus=gpus,
            guests=guest_book(config.agent.guests) if journal is not None else None,
            is_turning=sink.is_turning if isinstance(sink, ParentedJournal) else None,
        ),
        timing,
    )
    _restore(sampler, sampler.parts.sink)
    frequency = frequency_monitor(host, chosen)
    runner = CollectorRunner(
        chosen,
        CollectorContext(
            host,
            clock,
            board,
            journal.stats if journal is not None else None,
            config_sha256(config),
            frequency,
            watches,
            mapping,
            config.units,
        ),
    )
    pace = Pace(int(config.agent.interval_seconds * NANOSECONDS_PER_SECOND), config.agent.cpu_budget_ratio)
    closers: list[Callable[[], None]] = [] if mapping is None else [mapping.holders.close]
    closers += [watch.close for watch in watches]
    closers += [frequency.close, bank.close, *(source.close for source in units), stat.close]
    if journal is not None:
        closers.append(journal.close)
    agent = Agent(sampler, SamplerThread(sampler, pace, clock), runner, tuple(closers))
    return BuiltAgent(agent, journal, host, clock, identity, watches)


def gpu_mapping(
    config: AgentConfig, host: HostFS, gpus: Sequence[GpuSource], units: Sequence[UnitSource], clock: Clock
) -> NodeMapping | None:
    """Return what finds out who holds which GPU; None where there is none, not even one that a guest has."""
    if not gpus and (host.is_recorded or not any(gpu.driver == PASSED_ON for gpu in find_pci_gpus(host))):
        return None
    node = identify(config.agent, host).node
    return build_mapping(
        host,
        gpus,
        units,
        clock,
        settings=config.gpu.mapping,
        unit_settings=config.units,
        node_names={node, node.partition(".")[0], *config.agent.node_names},
        cgroups_version=config.cgroups.version,
    )


def check_settings(config: AgentConfig) -> tuple[SlotTiming, list[tuple[AnyPlugin, CollectorSettings]]]:
    """Return slot lengths and collectors. Raises ConfigError for what no single section shows to be wrong."""
    timing = timing_of(config.agent)
    chosen = chosen_collectors(config.collector)
    _check_idle_watts(config.agent)
    return timing, chosen


def config_sha256(config: AgentConfig) -> str:
    """Return the hex digest of everything the agent was told; the same for the same settings."""
    text = json.dumps(config.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def identify(settings: AgentSettings, host: HostFS) -> Identity:
    """Return the node's names and ids: the settings', else the machine's, else what stands in for them."""
    node = settings.node or socket.gethostname()
    return Identity(
        node=node,
        machine_id=settings.machine_id or _or_else(machine_id, f"unknown-{node}"),
        boot_id=settings.boot_id or _or_else(lambda: boot_id(host), "unknown"),
        product_uuid=product_uuid(host),
    )


def topology_of(host: HostFS) -> Topology:
    """Return which CPU sits on which socket."""
    return Topology({cpu.number: cpu.socket for cpu in read_topology(host).cpus})


def meter_context(host: HostFS, cpu: NodeCpu) -> MeterContext:
    """Return what meters are built from."""
    model = read_cpu_model(host)
    memory = _memory_bytes(host)
    return MeterContext(
        fs=host,
        socket_of_cpu={found.number: found.socket for found in read_topology(host).cpus},
        cpu_vendor=model.vendor,
        cpu_model=model.name,
        cpu=model,
        memory_bytes=memory,
        busy_ns=cpu.busy_ns,
    )


def meter_bank(meters: Meters, settings: AgentSettings) -> MeterBank:
    """Return all meters in the order in which they are believed."""

    def rank(source: str) -> int:
        return COMPONENT_ORDER.index(source) if source in COMPONENT_ORDER else len(COMPONENT_ORDER)

    absent = {status.source: status.reason for status in meters.sources if not status.up and is_worth_a_series(status)}
    ordered = sorted(meters.meters, key=lambda meter: rank(meter.source))
    return MeterBank(ordered, absent, int(settings.interval_seconds * NANOSECONDS_PER_SECOND), meters.alone)


def energy_book(
    settings: AgentSettings, meters: Meters, context: MeterContext, bank: MeterBank, gpus: GpuBook | None = None
) -> EnergyBook:
    """Return the splitter, with the idle power of each domain: configured, learned, or the model's."""
    by_source = {meter.source: meter for meter in meters.meters}

    def baseline(source: str, domain: Domain) -> IdleBaseline:
        meter = by_source[source]
        if isinstance(meter, ModelMeter) and meter.method is Method.MODELLED:
            return IdleBaseline(meter.idle_uw(domain), learns=False)
        component = Component.OTHER if domain == PLATFORM else COMPONENT_OF[domain.kind]
        watts = settings.idle_watts.get(component.value)
        configured_uw = None if watts is None else int(watts * _MICROWATTS)
        if domain.kind is DomainKind.GPU:
            return IdleBaseline(gpu_idle_table_uw(gpu_limit_uw(meter.p_max_uw(domain))), configured_uw)
        return IdleBaseline(idle_table_uw(context, domain), configured_uw)

    interval_ns = int(settings.interval_seconds * NANOSECONDS_PER_SECOND)
    platforms = [
        PlatformBook(meter, bank, max(interval_ns, int(meter.refresh_seconds * NANOSECONDS_PER_SECOND)))
        for meter in meters.platforms
    ]
    return EnergyBook(bank, baseline, settings.idle_policy, platforms, gpus)


def timing_of(settings: AgentSettings) -> SlotTiming:
    """Return lengths in nanoseconds. Raises ConfigError where a slot is shorter than a step."""
    if settings.slot_seconds < settings.interval_seconds:
        raise ConfigError(
            f"agent.slot_seconds: expected at least agent.interval_seconds ({settings.interval_seconds:g}),"
            f" found {settings.slot_seconds:g}"
        )
    first = settings.first_slot_seconds
    return SlotTiming(
        slot_ns=int(settings.slot_seconds * NANOSECONDS_PER_SECOND),
        first_slot_ns=None if first is None else int(first * NANOSECONDS_PER_SECOND),
        detail_ns=int(settings.detail_seconds * NANOSECONDS_PER_SECOND),
        ended_ns=int(settings.ended_seconds * NANOSECONDS_PER_SECOND),
    )


def chosen_collectors(settings: dict[str, dict[str, Any]]) -> list[tuple[AnyPlugin, CollectorSettings]]:
    """Return the enabled collectors with their settings. Raises ConfigError that names the key."""
    found = find_collectors()
    for sentence in found.refused:
        log.warning("collector refused", reason=sentence)
    unknown = sorted(settings.keys() - found.plugins.keys())
    if unknown:
        raise ConfigError(f"collector.{unknown[0]}: expected one of {', '.join(sorted(found.plugins))}")
    chosen = []
    for name, plugin in found.plugins.items():
        values = dict(settings.get(name, {}))
        enabled = values.pop("enabled", plugin.enabled_by_default)
        if not isinstance(enabled, bool):
            raise ConfigError(f"collector.{name}.enabled: expected true or false, found {enabled!r}")
        if enabled:
            try:
                chosen.append((plugin, plugin.settings_class.model_validate(values)))
            except ValidationError as error:
                first = error.errors()[0]
                place = ".".join(str(part) for part in first["loc"])
                raise ConfigError(f"collector.{name}.{place}: {first['msg']}") from None
    return chosen


def frequency_monitor(host: HostFS, chosen: Sequence[tuple[AnyPlugin, CollectorSettings]]) -> FrequencyMonitor:
    """Return the one reader of CPU frequencies, at the pace that the frequency collector asks for."""
    for _, settings in chosen:
        if isinstance(settings, FrequencySettings):
            return FrequencyMonitor(host, settings.interval_seconds)
    return FrequencyMonitor(host)


def _paced(settings: AgentSettings, host: HostFS, clock: Clock) -> AgentSettings:
    """Return the settings with the length of a step: of a recorded host it is the time between its two moments."""
    if not (host.is_recorded and host.has_two_moments):
        return settings
    first_ns = clock.monotonic_ns()
    host.select_snapshot(1)
    apart_ns = clock.monotonic_ns() - first_ns
    host.select_snapshot(0)
    if apart_ns <= 0:
        return settings
    return settings.model_copy(update={"interval_seconds": apart_ns / NANOSECONDS_PER_SECOND})


def _check_idle_watts(settings: AgentSettings) -> None:
    unknown = sorted(settings.idle_watts.keys() - _IDLE_KEYS)
    if unknown:
        raise ConfigError(f"agent.idle_watts.{unknown[0]}: expected one of cpu, dram, gpu, other")


def _settle_in(settings: AgentSettings, state_dir: Path | None) -> None:
    """Set niceness and the like, then become the agent's user, who gets the state directory first."""
    for sentence in neighbour.apply(settings):
        log.warning("could not be set", reason=sentence)
    if state_dir is None:
        return
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    if settings.user is not None:
        neighbour.become(settings.user, state_dir)


def _open_journal(
    config: AgentConfig, identity: Identity, bank: MeterBank, cpu: NodeCpu, clock: Clock, state_dir: Path
) -> Journal:
    facts = EpochFacts(
        node=identity.node,
        node_names=config.agent.node_names,
        machine_id=identity.machine_id,
        boot_id=identity.boot_id,
        parent=None,
        slot_seconds=max(1, round(config.agent.slot_seconds)),
        idle_policy=config.agent.idle_policy.value,
        cpus=sum(cpu.topology.cpus_by_socket),
        p_max_mw={component.value: power // 1000 for component, power in bank.p_max_by_component_uw().items()},
        version=__version__,
    )
    binding = JournalIdentity(identity.machine_id, identity.product_uuid, identity.node)
    return Journal.open(state_dir, binding, facts, config.journal, clock)


def _restore(sampler: Sampler, sink: SlotSink) -> None:
    text = sink.last_state()
    if text is None:
        return
    try:
        same_boot = sampler.restore(SavedState.from_json(text))
    except SourceError as error:
        log.error("saved state cannot be used; the time since the last slot is not accounted", error=str(error))
        return
    log.info("took up the account of an earlier process", same_boot=same_boot)


def _memory_bytes(host: HostFS) -> int | None:
    try:
        return parse_meminfo(host.read_text("proc/meminfo")).total_bytes
    except (Unavailable, SourceError):
        return None


def _or_else(read: Callable[[], str], instead: str) -> str:
    try:
        return read()
    except (Unavailable, SourceError):
        return instead
