"""The server as a long-running role: database, intake, passes, series, API and pages."""

import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import structlog
import uvicorn
from fastapi import FastAPI
from sqlalchemy import Engine
from sqlalchemy.engine import make_url

from kwhere._version import __version__
from kwhere.agent.listen import address_of, open_sockets
from kwhere.api.app import build_app
from kwhere.apps.door import Door, build_door, build_witnesses
from kwhere.apps.door_check import check_door
from kwhere.apps.inventories import open_sources
from kwhere.apps.renewal import Renewal
from kwhere.apps.series_stores import not_stored_elsewhere, open_series
from kwhere.apps.settings import Settings
from kwhere.apps.weekly_reports import weekly_report_passes
from kwhere.apps.zones import zones_by_key
from kwhere.core.clock import Clock, SystemClock
from kwhere.core.errors import ConfigError, KwhereError
from kwhere.database.choices import choose_zone
from kwhere.database.engine import SQLITE, open_engine
from kwhere.database.grid import Grid
from kwhere.database.maintenance import upgrade
from kwhere.database.manager_states import forget_errors
from kwhere.database.nodes import node_of_target
from kwhere.database.pue import read_pue
from kwhere.database.reader import Reader
from kwhere.database.settings import DatabaseSettings
from kwhere.emission_factors.choose import Chooser, build_chooser
from kwhere.emission_factors.provider import EmissionFactorProvider, may_know
from kwhere.emission_factors.static import StaticProvider, shipped_table
from kwhere.emission_factors.zones import propose_country
from kwhere.inventories.registry import BuiltInventory
from kwhere.reports.optional import OptionalFigures
from kwhere.reports.sources import Hint, SettingInForce, Sources, ZoneChoice
from kwhere.resource_managers.registry import BuiltManager
from kwhere.series.by_cluster import ClusterStores
from kwhere.series.embedded import EmbeddedSeriesStore
from kwhere.series.store import SeriesStore
from kwhere.server.account_day_pass import AccountDayPass
from kwhere.server.active_users import ActiveUsersPass
from kwhere.server.agreement_round import AgreementRound
from kwhere.server.factor_pass import FactorPass, report_quality
from kwhere.server.figure_pass import FigurePass, check_pue
from kwhere.server.grafana_pass import GrafanaPass
from kwhere.server.http_peer import server_config
from kwhere.server.intake import Intake
from kwhere.server.inventory_pass import inventory_passes
from kwhere.server.manager_pass import ManagerPass
from kwhere.server.metrics import ServerMetrics, ServerWork, metrics_endpoint, server_faults
from kwhere.server.note_pass import note_passes
from kwhere.server.page_booker import PageBooker
from kwhere.server.passes import PassRunner, ServerPass
from kwhere.server.push import PushReceiver
from kwhere.server.push_door import PushDoor
from kwhere.server.push_grants import PushGrants
from kwhere.server.relay import build_relay
from kwhere.server.retention_round import RetentionRound
from kwhere.server.rollup_pass import RollupPass
from kwhere.server.series_scraper import ScrapeTarget, SeriesScraper
from kwhere.server.target import Target
from kwhere.server.targets import Targets
from kwhere.server.upkeep_passes import FadePass, RetentionPass
from kwhere.web.app import build_pages

DEFAULT_DATABASE = "kwhere.db"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ServerInputs:
    """What a server is started with beside its settings."""

    state_dir: Path
    token: str | None
    handed_over: Sequence[socket.socket] = ()
    """Sockets that listen already; without them `server.listen` is opened."""
    hints: Callable[[], Sequence[Hint]] = tuple


@dataclass(frozen=True, slots=True)
class ServerStart:
    """All that a server starts from."""

    settings: Settings
    inputs: ServerInputs


def run_server(start: ServerStart, read_again: Callable[[], ServerStart] | None = None) -> int:
    """Run until SIGTERM or SIGINT, return the exit code; SIGHUP asks `read_again` what to go on with.

    Raises ConfigError, Unavailable at start.
    """
    fallback: ServerStart | None = None
    while True:
        renewal = Renewal(start, read_again)
        signal.signal(signal.SIGHUP, renewal)
        try:
            serve_account(start.settings, start.inputs, renewal)
        except KwhereError as error:
            if fallback is None:
                raise
            log.error("server does not start with the new configuration, the old one comes back", error=str(error))
            start, fallback = fallback, None
            continue
        if renewal.found is None:
            return 0
        log.info("configuration read again")
        start, fallback = renewal.found, start


def serve_account(settings: Settings, inputs: ServerInputs, renewal: Renewal[ServerStart]) -> None:
    """Serve until a signal. Raises ConfigError, Unavailable at start."""
    inputs.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    clock = SystemClock()
    check_pue(settings.site)
    chooser = build_chooser(
        settings.emission_factors,
        clock,
        zones=zones_by_key(settings.site),
        state_dir=inputs.state_dir / "emission_factors",
        report=report_quality,
    )
    with ExitStack() as stack:
        sockets = list(inputs.handed_over) or open_sockets([settings.server.listen])
        for each in sockets:
            stack.callback(each.close)
        tls = check_door(settings)
        engine = open_database(settings, inputs.state_dir)
        stack.callback(engine.dispose)
        store = open_series(settings, inputs.state_dir, clock)
        stack.callback(store.close)
        targets = Targets(settings.server.targets, clock)
        targets.start()
        stack.callback(targets.stop)
        booker = build_booker(settings, engine)
        intake = Intake(engine, booker, clock, settings.server, targets.current, targets.connect)
        start_scraper(settings, engine, store, targets, clock, stack)
        intake.start()
        stack.callback(intake.stop)
        propose_zone(settings, engine, chooser, clock)
        managers, inventories = open_sources(settings, clock, stack)
        forget_errors(engine, {(each.settings.cluster, each.claims) for each in managers})
        passes = build_passes(settings, engine, chooser, clock, inputs.state_dir, managers, inventories)
        passes.start()
        stack.callback(passes.stop)
        sources = build_sources(settings, engine, store, clock, inputs.hints, chooser.providers)
        sources = start_rounds(sources, store, stack)
        file = database_file(settings, inputs.state_dir)
        faults = partial(server_faults, passes, intake, file)
        sources = replace(sources, faults=faults)
        work = build_work(settings, engine, sources, passes, intake, file)
        host = str(sockets[0].getsockname()[0])
        door = build_door(host, settings.access, engine, clock, inputs.token, is_tls=tls is not None)
        app = build_faces(settings, door, sources, replace(work, managers=managers))
        start_relays(settings, engine, clock, stack)
        grants = PushGrants(settings.server.push)
        faces = PushDoor(app, PushReceiver(engine, booker, grants, clock)) if grants else app
        serve(server_config(faces, tls), sockets, renewal)


def start_rounds(sources: Sources, store: SeriesStore, stack: ExitStack) -> Sources:
    """Let the slow rounds over the store of series run until `stack` ends; return sources that know what they find."""
    agreements = AgreementRound(sources.account, store, sources.clock)
    retentions = RetentionRound(lambda: clusters_of(sources), store, sources.clock)
    for each in (agreements, retentions):
        each.start()
        stack.callback(each.stop)
    return replace(sources, agreements=agreements, retentions=retentions)


def start_relays(settings: Settings, engine: Engine, clock: Clock, stack: ExitStack) -> None:
    """Let every relay run until `stack` ends."""
    for each in settings.server.relay:
        relay = build_relay(engine, each, clock)
        relay.start()
        stack.callback(relay.stop)


def build_faces(settings: Settings, door: Door, sources: Sources, work: ServerWork) -> FastAPI:
    """Return API, metrics and pages behind one door."""
    app = build_app(sources, door.rules, door.doorman)
    app.add_route("/metrics", metrics_endpoint(ServerMetrics(work)))
    app.mount("/", build_pages(sources, settings.pages))
    return app


def serve(config: uvicorn.Config, sockets: list[socket.socket], renewal: Renewal[ServerStart]) -> None:
    """Serve on `sockets` until SIGTERM or SIGINT, or until there is another configuration."""
    server = renewal.serving = uvicorn.Server(config)
    scheme = "http" if config.ssl is None else "https"
    log.info("server answers", urls=[f"{scheme}://{address_of(each)}/" for each in sockets])
    server.run(sockets=sockets)


def database_settings(settings: Settings, state_dir: Path) -> DatabaseSettings:
    """Return which database is meant: SQLite in the state directory where none is named."""
    if "url" in settings.database.model_fields_set:
        return settings.database
    return settings.database.model_copy(update={"url": f"sqlite:///{state_dir / DEFAULT_DATABASE}"})


def database_file(settings: Settings, state_dir: Path) -> Path | None:
    """Return the file of the database; None for a database server."""
    url = make_url(database_settings(settings, state_dir).url)
    return Path(url.database) if url.get_backend_name() == SQLITE and url.database else None


def open_database(settings: Settings, state_dir: Path) -> Engine:
    """Return the database, its schema upgraded."""
    engine = open_engine(database_settings(settings, state_dir))
    upgrade(engine)
    return engine


def clusters_of(sources: Sources) -> list[str]:
    """Return every cluster's name."""
    return [record.cluster for record in sources.account.clusters()]


def propose_zone(settings: Settings, engine: Engine, chooser: Chooser, clock: Clock) -> None:
    """Propose the country of the system's time zone where nobody set or chose a zone."""
    country = propose_country() if settings.site.zone is None else None
    known = StaticProvider(shipped_table()).zones()
    if country is not None and country in known and may_know(chooser.providers[0], country):
        choose_zone(engine, country, now_ns=clock.utc_ns(), by="time zone", proposed=True)


def start_scraper(
    settings: Settings, engine: Engine, store: SeriesStore, targets: Targets, clock: Clock, stack: ExitStack
) -> None:
    """Start the scraper where the store is our own."""
    common = store.rest if isinstance(store, ClusterStores) else store
    if isinstance(common, EmbeddedSeriesStore):
        scraper = build_scraper(settings, engine, common, targets, clock)
        scraper.start()
        stack.callback(scraper.stop)


def build_scraper(
    settings: Settings, engine: Engine, store: EmbeddedSeriesStore, targets: Targets, clock: Clock
) -> SeriesScraper:
    """Return the scraper of the embedded store, which reads the agents that the intake reads."""
    nodes = NodeNames(engine)
    by_url: dict[str, Target] = {}

    def current() -> list[ScrapeTarget]:
        scraped = not_stored_elsewhere(targets.current(), settings)
        by_url.update({target.url: target for target in scraped})
        named = [(target, target.node or nodes.of(target)) for target in scraped]
        return [ScrapeTarget(target.cluster, node, target.url) for target, node in named if node is not None]

    return SeriesScraper(
        store, current, lambda target: targets.connect(by_url[target.url]), clock, settings.series.scrape
    )


def build_booker(settings: Settings, engine: Engine) -> PageBooker:
    """Return what books pages, pulled or pushed."""
    server = settings.server
    return PageBooker(engine, Grid(settings.site.tz), server.pull_seconds, server.max_clock_offset_seconds)


def build_passes(
    settings: Settings,
    engine: Engine,
    chooser: Chooser,
    clock: Clock,
    state_dir: Path,
    managers: Sequence[BuiltManager] = (),
    inventories: Sequence[BuiltInventory] = (),
) -> PassRunner:
    """Return what keeps the account: factors and PUE, then rollups that use them, then upkeep and reports of it."""
    site = settings.site
    reader = Reader(engine, clock, site)
    passes: tuple[ServerPass, ...] = (
        FactorPass(engine, site, chooser, clock),
        FigurePass(engine, site, clock),
        RollupPass(engine, site, clock),
        AccountDayPass(engine, Grid(site.tz), clock),
        RetentionPass(engine, settings.retention, Grid(site.tz), clock),
        FadePass(engine, clock),
        *(ManagerPass(engine, each, clock) for each in managers),
        *([ActiveUsersPass(engine, managers, clock)] if managers else ()),
        *note_passes(engine, managers, reader, clock),
        *inventory_passes(engine, inventories, clock),
        *weekly_report_passes(settings.reports, site.tz, engine, reader, clock, state_dir),
        *([] if settings.access.grafana is None else [GrafanaPass(engine, settings.access.grafana, clock)]),
    )
    return PassRunner(engine, clock, passes, settings.server.pass_seconds)


def build_work(
    settings: Settings, engine: Engine, sources: Sources, passes: PassRunner, intake: Intake, file: Path | None
) -> ServerWork:
    """Return what the server's own metrics look at."""
    clock = sources.clock
    return ServerWork(
        factors=sources.account.emission_factors,
        health=sources.account.health,
        pue_now=lambda: read_pue(engine, settings.site).at(clock.utc_ns()) or 1.0,
        passes=passes,
        intake=intake,
        providers=sources.factor_providers,
        clock=clock,
        version=__version__,
        database_file=file,
    )


class NodeNames:
    """Which node answers at a target, as the intake learned it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, str] = {}

    def of(self, target: Target) -> str | None:
        """Return the node's name; None before its first page was taken in."""
        if target.key not in self._known:
            with self._engine.connect() as connection:
                node = node_of_target(connection, target.key)
            if node is None:
                return None
            self._known[target.key] = node
        return self._known[target.key]


def build_sources(
    settings: Settings,
    engine: Engine,
    store: SeriesStore,
    clock: Clock,
    hints: Callable[[], Sequence[Hint]],
    factor_providers: Sequence[EmissionFactorProvider] = (),
) -> Sources:
    """Return what API and pages read from."""
    provider = StaticProvider(shipped_table())

    def choose(zone: str, by: str) -> None:
        if zone not in provider.zones():
            raise ConfigError(f"zone {zone!r}: no emission factor is known for it")
        for reporting in factor_providers[:1]:
            if not may_know(reporting, zone):
                raise ConfigError(f"zone {zone!r}: not one of {reporting.name}, which this site reports by")
        choose_zone(engine, zone, now_ns=clock.utc_ns(), by=by)

    return Sources(
        account=Reader(engine, clock, settings.site),
        clock=clock,
        series=store,
        time_zone=settings.site.time_zone,
        pue=lambda: read_pue(engine, settings.site),
        optional=OptionalFigures(
            currency=settings.site.cost.currency if settings.site.cost.tariffs else None,
            water=bool(settings.site.water),
            embodied=bool(settings.site.embodied),
        ),
        choose_zone=choose if settings.site.zone is None else None,
        zones=[ZoneChoice(zone, name) for zone, name in sorted(provider.zones().items(), key=lambda item: item[1])],
        factor_providers=factor_providers,
        hints=hints,
        settings_in_force=lambda: settings_in_force(settings),
        witness_of=build_witnesses(settings.access, engine, clock),
        version=__version__,
    )


def settings_in_force(settings: Settings) -> list[SettingInForce]:
    """Return the settings that decide figures, for the Methodology page."""
    chosen = (
        ("agent.interval_seconds", settings.agent, "interval_seconds"),
        ("agent.idle_policy", settings.agent, "idle_policy"),
        ("site.pue_ratio", settings.site, "pue_ratio"),
        ("site.time_zone", settings.site, "time_zone"),
        ("site.zone", settings.site, "zone"),
    )
    return [
        SettingInForce(key, str(getattr(model, name)), type(model).model_fields[name].description or "")
        for key, model, name in chosen
    ]
