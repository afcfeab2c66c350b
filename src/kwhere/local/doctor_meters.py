"""Every energy source one by one: what it covers and says now, or why it is not read and what would open it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from kwhere.core.terms import Component, DomainKind, Method
from kwhere.kernel.powercap import POWERCAP_DIRECTORY
from kwhere.local.doctor import Check, CheckState, Remedy, counted, failed, listed, ok
from kwhere.local.doctor_absent import says_absent
from kwhere.local.doctor_answers import MeterAnswer
from kwhere.local.doctor_meter_reasons import advice_for
from kwhere.local.doctor_place import Place
from kwhere.local.doctor_remedies import open_powercap
from kwhere.meters.meter import Meter
from kwhere.meters.model import ModelMeter
from kwhere.meters.registry import Meters, SourceStatus
from kwhere.meters.sources import PLATFORM_ORDER
from kwhere.reports.figures import POWER, quantity

_RAPL = ("powercap", "psys")
_PARTS = {
    DomainKind.CPU: ("cpu", "socket"),
    DomainKind.DRAM: ("dram", "socket"),
    DomainKind.GPU: ("gpu", "device"),
}


def check_meters(place: Place) -> Sequence[Check]:
    """Say of every energy source whether it can be read."""
    meters = place.meters()
    answers = place.answers()
    return [_check_source(status, meters, place, answers.get(status.source)) for status in meters.sources]


def _check_source(status: SourceStatus, meters: Meters, place: Place, answer: MeterAnswer | None) -> Check:
    name = f"meter_{status.source}"
    if status.up:
        meter = next(meter for meter in meters.meters if meter.source == status.source)
        return ok(name, _found(meter, answer, place), _role(meter, meters))
    if status.source in _RAPL and status.reason == "permission":
        return _closed_rapl(name, status, meters, place)
    if status.reason == "permission" and place.is_root:
        return failed(name, "not readable, not even by root", f"{status.detail}. A container or a policy forbids it.")
    if status.source == "perf" and status.reason == "permission" and _is_closed("powercap", meters):
        check = _by_table(name, status, place)  # the same counters: one of the two is enough, so one hint
        return replace(check, state=CheckState.MISSING, why=f"Another way to what powercap reads. {check.why}")
    special = says_absent(name, status, meters, place) if status.reason == "absent" else None
    return special or _by_table(name, status, place)


def _by_table(name: str, status: SourceStatus, place: Place) -> Check:
    advice = advice_for(status.source, status.reason)
    sentences = [_sentence(status.detail) if advice.says_detail else "", _sentence(advice.why)]
    why = " ".join(sentence for sentence in sentences if sentence)
    remedies = advice.remedies(status, place) if advice.remedies is not None else ()
    return Check(name, advice.state, advice.found, why, remedies)


def _closed_rapl(name: str, status: SourceStatus, meters: Meters, place: Place) -> Check:
    if place.is_root:
        return failed(name, "not readable, not even by root", f"{status.detail}. A container or a policy forbids it.")
    if status.source == "psys" and _is_closed("powercap", meters):
        return failed(name, "readable by root only", "The command for meter powercap opens this one too.")
    remedies: tuple[Remedy, ...] = open_powercap(str(place.fs.path(POWERCAP_DIRECTORY)), place.user)
    why = f"{_sentence(status.detail)} Start kwhere anew once it is open."
    check = failed(name, "readable by root only", why, *remedies)
    if status.source == "powercap" and not any(meter.method is not Method.MODELLED for meter in meters.meters):
        return replace(check, headline="CPU energy is estimated: RAPL is readable by root only")
    return check


def _is_closed(source: str, meters: Meters) -> bool:
    return any(status.source == source and status.reason == "permission" for status in meters.sources)


def _found(meter: Meter, answer: MeterAnswer | None, place: Place) -> str:
    covers = _covers(meter)
    if answer is None or not answer.watts:
        return covers
    names = {DomainKind.PLATFORM: "", DomainKind.OTHER: "other "}
    watts = [f"{names.get(kind, f'{kind} ')}{quantity(value, POWER)}" for kind, value in answer.watts.items()]
    return f"{covers}: {', '.join(watts)}{'' if place.fs.is_recorded else ' now'}"


def _covers(meter: Meter) -> str:
    kinds = Counter(domain.kind for domain in meter.domains)
    parts = [f"{_PARTS[kind][0]} of {counted(n, _PARTS[kind][1])}" for kind, n in kinds.items() if kind in _PARTS]
    parts += ["what lies beside them"] if DomainKind.OTHER in kinds else []
    return ", ".join([*parts, *(["the whole node"] if DomainKind.PLATFORM in kinds else [])])


def _role(meter: Meter, meters: Meters) -> str:
    """Return whether it speaks for something, and why it and no other; else that it is compared only."""
    speaks = [str(component) for component in Component if meters.by_component.get(component) is meter]
    is_first = bool(meters.platforms) and meters.platforms[0] is meter
    if isinstance(meter, ModelMeter):
        return f"{meter.basis} {'' if speaks else 'Not used: another source is better.'}".rstrip()
    if is_first:
        speaks.append("the whole node")
    sentences = [f"Speaks for {listed(speaks)}{_before(meter, meters) if is_first else ''}."] if speaks else []
    others = [p for p in meters.platforms[:1] if not is_first and p is not meter and meter in meters.platforms]
    if others:
        sentences.append(f"Whole node exported for comparison: {others[0].source} comes first.")
    elif not speaks:
        sentences.append("Exported for comparison.")
    return " ".join(sentences)


def _before(meter: Meter, meters: Meters) -> str:
    """Return why a meter of the whole node comes first where there are several."""
    rest = [other.source for other in meters.platforms if other is not meter]
    if not rest:
        return ""
    order = [source for source in PLATFORM_ORDER if source == meter.source or source in rest]
    return f", first in the order {', '.join(order)}" if order[:1] == [meter.source] else ", named by meters.platform"


def _sentence(text: str) -> str:
    if not text:
        return ""
    is_word = text.split(" ")[0].isalpha()  # a path, a key or a source keeps its own letters
    text = text[0].upper() + text[1:] if is_word else text
    return text if text.endswith(".") else f"{text}."
