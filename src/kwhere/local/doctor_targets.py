"""What a server will find at its agents: one check per target of a Prometheus file_sd file."""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlsplit

from kwhere.core.errors import KwhereError, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.local.doctor import Check, Remedy, failed, ok, warning
from kwhere.transport.http import Answer

SECTION = "Targets"
MOST_AT_ONCE = 16
_DOWN = re.compile(r"^kwhere_energy_source_up\{([^}]*)\} 0(?:\.0)?$", re.MULTILINE)
_METHOD = re.compile(r"^kwhere_energy_method_info\{([^}]*)\} 1(?:\.0)?$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_GOOD_OFFSET_SECONDS = 2.0

Ask = Callable[[str, str], Answer]
"""GET of a path at a base address. Raises Unavailable, SourceError, ConfigError."""


@dataclass(frozen=True, slots=True)
class Target:
    """One agent: its name in the file, and its base address."""

    address: str
    url: str

    @property
    def host(self) -> str:
        """Return the host without port and brackets."""
        return urlsplit(self.url).hostname or self.address


def check_targets(targets: Sequence[Target], ask: Ask, utc_ns: Callable[[], int]) -> list[Check]:
    """Return what each target answers, asked side by side, in the order of the file."""
    with ThreadPoolExecutor(MOST_AT_ONCE, "target") as pool:
        return list(pool.map(lambda target: check_target(target, ask, utc_ns), targets))


def check_target(target: Target, ask: Ask, utc_ns: Callable[[], int]) -> Check:
    """Return whether an agent can be scraped and pulled, what it does not measure, and whether its clock agrees."""
    name = target.address
    try:
        health = ask(target.url, "/healthz")
        metrics = ask(target.url, "/metrics")
        before_ns = utc_ns()
        ledger = ask(target.url, "/ledger?limit=1")
        after_ns = utc_ns()
    except Unavailable as error:
        return failed(name, f"no answer ({error.reason})", f"{error}.", _ask_there(target))
    except KwhereError as error:
        return failed(name, "cannot be asked", f"{error}.")
    troubles = [*_health(health), *_sources(metrics), *_ledger(ledger), *_clock(ledger, before_ns, after_ns)]
    if ledger.status in (401, 403):
        return failed(name, "its ledger is closed to us", " ".join(troubles))
    if troubles:
        return warning(name, "answers", " ".join(troubles), _ask_there(target))
    return ok(name, f"answers, ledger open; {_methods(metrics)}")


def _ask_there(target: Target) -> Remedy:
    return Remedy(f"ssh {shlex.quote(target.host)} kwhere doctor", title="what is wrong there")


def _health(answer: Answer) -> Iterator[str]:
    if answer.status != 200:
        yield f"Not healthy (status {answer.status}): {answer.text.strip()[:200]}."


def _sources(answer: Answer) -> Iterator[str]:
    if answer.status != 200:
        yield f"/metrics answers status {answer.status}."
        return
    down = [dict(_LABEL.findall(labels)) for labels in _DOWN.findall(answer.text)]
    closed = [labels.get("source", "") for labels in down if labels.get("reason") not in ("absent", "unsupported")]
    if closed:
        yield f"Not read there: {', '.join(closed)}."


def _methods(answer: Answer) -> str:
    """Return how each component's figures come about there: `cpu by counter, dram by counter`."""
    facts = [dict(_LABEL.findall(labels)) for labels in _METHOD.findall(answer.text)]
    spoken = [f"{fact['component']} by {fact['method']}" for fact in facts if {"component", "method"} <= fact.keys()]
    return ", ".join(spoken) or "nothing speaks for its energy"


def _ledger(answer: Answer) -> Iterator[str]:
    if answer.status in (401, 403):
        yield f"/ledger answers status {answer.status}: give its token with --token-file, over HTTPS or loopback."
    elif answer.status != 200:
        yield f"/ledger answers status {answer.status}."


def _clock(answer: Answer, before_ns: int, after_ns: int) -> Iterator[str]:
    word = answer.headers.get("x-clock-utc-ns", "")
    if word.isdigit():
        offset = (int(word) - (before_ns + after_ns) // 2) / NANOSECONDS_PER_SECOND
        slack = (after_ns - before_ns) / 2 / NANOSECONDS_PER_SECOND
        if abs(offset) - slack > _GOOD_OFFSET_SECONDS:
            yield f"Its clock is off by {offset:+.1f} s: a server flags its slots."
