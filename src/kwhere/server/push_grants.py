"""Who may send its ledger: tokens of push groups, kept as digests only."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kwhere.core.errors import ConfigError
from kwhere.server.settings import PushGroup
from kwhere.server.target import Target
from kwhere.transport.secret_files import read_secret_file

_SHORTEST_TOKEN = 16
_MAX_FILE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class PushGrant:
    """What a token allows: to speak for one node of a cluster, or for any (`node` None)."""

    group: str
    cluster: str
    node: str | None
    ceiling_mw: int

    def target_of(self, node: str) -> Target:
        """Return the target whose cursor a page of `node` moves."""
        return Target(
            cluster=self.cluster,
            url=f"push:{self.group}/{node}",
            group=self.group,
            node=self.node,
            may_see_credentials=False,
            ceiling_mw=self.ceiling_mw,
        )


class PushGrants:
    """The grants by token; read once, at start. Raises ConfigError."""

    def __init__(self, groups: Sequence[PushGroup]) -> None:
        self._grants: dict[bytes, PushGrant] = {}
        for group in groups:
            for node, token in _tokens(group):
                mark = _mark(token)
                if mark in self._grants:
                    raise ConfigError(
                        f"server.push: {group.tokens_file}: a token is there twice, or in another group too"
                    )
                self._grants[mark] = PushGrant(group.name, group.cluster, node, int(group.ceiling_watts * 1000))

    def __bool__(self) -> bool:
        return bool(self._grants)

    def grant_of(self, authorization: str) -> PushGrant | None:
        """Return what the token of an Authorization header allows; None where it allows nothing."""
        scheme, _, token = authorization.partition(" ")
        return self._grants.get(_mark(token.strip())) if scheme.lower() == "bearer" else None


def _mark(token: str) -> bytes:
    """A look-up by digest takes the same time however much of a guess is right."""
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def _tokens(group: PushGroup) -> Iterator[tuple[str | None, str]]:
    for number, line in enumerate(_read(group.tokens_file).splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) > 2 or len(words[-1]) < _SHORTEST_TOKEN:
            raise ConfigError(
                f"server.push: {group.tokens_file} line {number}: expected `NODE TOKEN` or `TOKEN`,"
                f" the token of at least {_SHORTEST_TOKEN} characters"
            )
        yield (words[0] if len(words) == 2 else None), words[-1]


def _read(path: Path) -> str:
    content = read_secret_file(path, "these tokens", place="server.push: ", most_bytes=_MAX_FILE_BYTES)
    return content.decode("ascii", "replace")
