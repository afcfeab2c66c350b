"""The factors of the site's own contract: a CSV or JSON file, on disk or by HTTP, with its citation."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, field_validator, model_validator

from kwhere.core.clock import Clock
from kwhere.core.errors import ConfigError, NoData, SourceError, Unavailable
from kwhere.core.timespan import Span
from kwhere.emission_factors.asking import Asker, LiveSettings, Reply, describe, digest
from kwhere.emission_factors.file_rows import ROW_NAMES, FileForm, read_rows
from kwhere.emission_factors.plugin import ProviderPlugin
from kwhere.emission_factors.provider import Basis, Factor, Quality, Scope, System
from kwhere.emission_factors.rows import Origin, in_order
from kwhere.transport.credentials import read_token

NAME = "file"
MOST_BYTES = 64 * 1024 * 1024


class Layout(StrEnum):
    """How the file is written."""

    CSV = "csv"
    JSON = "json"


class Unit(StrEnum):
    """The file's unit."""

    GRAMS = "g/kWh"
    KILOGRAMS = "kg/MWh"
    TONNES = "t/MWh"
    KILOGRAMS_PER_KWH = "kg/kWh"
    POUNDS = "lb/MWh"

    @property
    def grams_per_kwh(self) -> float:
        """Return what one of it is in g/kWh."""
        large = {"t/MWh": 1000.0, "kg/kWh": 1000.0, "lb/MWh": 0.45359237}
        return large.get(self, 1.0)


class FileSettings(LiveSettings):
    """Where the file is, how it is written, and what its figures are."""

    path: Path | None = Field(default=None, description="The file; or `url`.")
    url: str | None = Field(default=None, description="Its address; a token goes into `http.token_file`.")
    layout: Layout | None = Field(
        default=None, description="`csv` or `json`; none: by the name, else by what is in it."
    )
    columns: dict[str, str] = Field(default_factory=dict, description="Names of columns in the file, by ours.")
    rows_at: str = Field(default="", description="JSON: dotted path to the list of rows.")
    unit: Unit = Field(default=Unit.GRAMS, description="`g/kWh`, `kg/MWh`, `t/MWh`, `kg/kWh` or `lb/MWh`.")
    time_zone: str | None = Field(default=None, description="IANA time zone of times without an offset.")
    citation: str = Field(min_length=1, description="Where the figures are from, with year and licence.")
    scope: Scope = Field(default=Scope.LIFECYCLE, description="`lifecycle`, or `direct` for the stack alone.")
    system: System = Field(default=System.CONSUMPTION, description="`production` or `consumption` of the zone.")
    quality: Quality = Field(default=Quality.ESTIMATED, description="Of rows without a quality of their own.")

    @field_validator("columns")
    @classmethod
    def _ours(cls, value: dict[str, str]) -> dict[str, str]:
        foreign = sorted(set(value) - set(ROW_NAMES))
        if foreign:
            raise ValueError(f"expected names among {', '.join(ROW_NAMES)}, found {', '.join(foreign)}")
        return value

    @field_validator("time_zone")
    @classmethod
    def _known(cls, value: str | None) -> str | None:
        try:
            return value if value is None else ZoneInfo(value).key
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError(f"unknown time zone {value!r}") from error

    @model_validator(mode="after")
    def _one_place(self) -> "FileSettings":
        if (self.path is None) == (self.url is None):
            raise ValueError("expected one of path and url")
        return self

    def form(self) -> FileForm:
        """Return how the file is read."""
        zone = None if self.time_zone is None else ZoneInfo(self.time_zone)
        return FileForm(self.columns, self.rows_at, self.unit.grams_per_kwh, zone, self.quality)


class FileProvider:
    """Rows of the zone that was asked for, or without a zone: those hold for every one."""

    name = NAME

    def __init__(self, settings: FileSettings, clock: Clock) -> None:
        self._settings = settings
        url = settings.url
        has_secret = settings.http.token_file is not None
        self._asker = Asker(url or "http://127.0.0.1", settings.http, clock, has_secret=has_secret)
        self.refresh_seconds = settings.refresh_seconds

    def factors(self, zone: str, span: Span) -> Sequence[Factor]:
        """Return the rows within `span`; those of the future are a contract's good right."""
        settings = self._settings
        text, place, layout = self._from_disk() if settings.path is not None else self._from_http()
        own = settings.own_zone(zone)
        rows = read_rows(text, settings.form(), place, own, is_json=layout is Layout.JSON)
        if not rows:
            raise NoData(f"{place}: no row for zone {own}")
        origin = Origin(NAME, own, Basis.AVERAGE, settings.scope, settings.system, settings.citation)
        return origin.factors(in_order(rows, span), self._asker.now())

    def key_digest(self) -> str:
        """Return a digest of the token at present; empty where none is shown."""
        secret = self._token()
        return "" if secret is None else digest(secret)

    def _from_disk(self) -> tuple[str, str, Layout]:
        path = self._settings.path
        assert path is not None
        try:
            if path.stat().st_size > MOST_BYTES:
                raise SourceError(f"{path}: expected at most {MOST_BYTES} bytes, found more")
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise SourceError(f"{path}: expected UTF-8 text, found other bytes") from error
        except OSError as error:
            raise Unavailable("absent", f"{path}: {error.strerror}") from error
        return text, str(path), self._layout(path.suffix.lower().removeprefix("."), text)

    def _from_http(self) -> tuple[str, str, Layout]:
        secret = self._token()
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        reply = self._asker.get("", headers=headers, secrets=[secret] if secret else [])
        text = reply.text()
        if text.lstrip().startswith("<"):
            raise SourceError(f"{reply.place}: expected CSV or JSON, found {describe(reply.body)}")
        return text, reply.place, self._layout(_kind(reply), text)

    def _token(self) -> str | None:
        try:
            return read_token(self._settings.http)
        except ConfigError as error:
            raise Unavailable("secret", f"http.{error}") from error

    def _layout(self, kind: str, text: str) -> Layout:
        if self._settings.layout is not None:
            return self._settings.layout
        if kind in tuple(Layout):
            return Layout(kind)
        return Layout.JSON if text.lstrip()[:1] in ("[", "{") else Layout.CSV


def _kind(reply: Reply) -> str:
    media = reply.content_type.partition(";")[0].strip().lower()
    return media.rpartition("/")[2].rpartition("+")[2]


plugin = ProviderPlugin(
    name=NAME,
    summary="Factors of the site's own contract: CSV or JSON, a file or by HTTP.",
    settings_class=FileSettings,
    basis=Basis.AVERAGE,
    build=FileProvider,
    is_live=True,
    answers_whole=True,
)
