"""Inventory and directory from CSV files that the site keeps."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import Field, model_validator

from kwhere.core.clock import Clock
from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.inventory import Inventory
from kwhere.inventories.csv_lists import parse_nodes, parse_people, parse_racks
from kwhere.inventories.source import InventoryPlugin, SourceSettings

_MOST_BYTES = 64 << 20
T = TypeVar("T")


class CsvSettings(SourceSettings):
    """Files with a first line of column names; a file that is not named is not spoken of."""

    nodes_file: Path | None = Field(
        default=None,
        description="Nodes: `node` and any of `cluster`, `rack`, `type`, `power_limit_watts`, `meter`, `retired_at`.",
    )
    racks_file: Path | None = Field(
        default=None, description="Racks: `rack` and any of `cluster`, `power_limit_watts`."
    )
    people_file: Path | None = Field(
        default=None,
        description="People: `user` and any of `cluster`, `full_name`, `mail`, `language`, `opt_out` (yes or no).",
    )

    @model_validator(mode="after")
    def _some_file(self) -> "CsvSettings":
        if self.nodes_file is None and self.racks_file is None and self.people_file is None:
            raise ValueError("expected at least one of nodes_file, racks_file and people_file")
        return self


class CsvSource:
    """Reads the files whole each time: one that is wrong anywhere changes nothing."""

    def __init__(self, settings: CsvSettings, clock: Clock) -> None:
        self._settings = settings

    def read(self) -> Inventory:
        """Return what the files say."""
        settings = self._settings
        return Inventory(
            nodes=self._parsed(settings.nodes_file, parse_nodes),
            racks=self._parsed(settings.racks_file, parse_racks),
            people=self._parsed(settings.people_file, parse_people),
        )

    def close(self) -> None:
        """Nothing is held."""

    def _parsed(self, file: Path | None, parse: Callable[[str, str, str | None], T]) -> T | None:
        return None if file is None else parse(read_text(file), file.name, self._settings.cluster)


def read_text(file: Path) -> str:
    """Return a file's text. Raises Unavailable, and SourceError where it is no UTF-8 or absurdly large."""
    try:
        with file.open("rb") as stream:
            content = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        reason = "permission" if isinstance(error, PermissionError) else "absent"
        raise Unavailable(reason, f"{file}: cannot be read: {error.strerror}") from error
    if len(content) > _MOST_BYTES:
        raise SourceError(f"{file}: expected at most {_MOST_BYTES} bytes, found more")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError(f"{file}: expected UTF-8, found another byte at {error.start}") from error


plugin = InventoryPlugin("csv", "Nodes, racks and people from CSV files of the site.", CsvSettings, CsvSource)
