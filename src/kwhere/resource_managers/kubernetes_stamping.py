"""An admission review → its answer: who made the object, written where its pods will bear it.

What people make is stamped with their name, whatever they wrote there. What controllers make is left alone, since they
compare what they asked for with what they got; of their pods a stamp stays only if its seal is good. A change of an
object changes no stamp. Nothing is ever refused.

Source: Kubernetes documentation, "Dynamic Admission Control"; RFC 6902, RFC 6901.
"""

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from kwhere.core.errors import SourceError
from kwhere.devices.json_answer import JsonValue, member, parse_object, text
from kwhere.discovery.kubernetes_objects import annotations_of, words
from kwhere.resource_managers.kubernetes_kinds import KINDS, METADATA, OTHER, Made, Place, places_of
from kwhere.resource_managers.kubernetes_stamps import KEYS, LONGEST_NAME, Seal

VERSION = "admission.k8s.io/v1"
_POD = ("", "Pod")
_ANNOTATIONS = "annotations"
Operation = dict[str, object]
Stamp = Mapping[str, str]
NO_STAMP: Stamp = {}


@dataclass(frozen=True, slots=True)
class Stamper:
    """Answers reviews."""

    seal: Seal
    controllers: tuple[str, ...]
    """Names, `*` for any characters, of those who make objects for others."""

    def answer(self, body: bytes) -> dict[str, object]:
        """Return the answer to a review. Raises SourceError where it is none."""
        review = parse_object(body, "review")
        request = review.get("request")
        uid = text(member(request, "uid"))
        if review.get("apiVersion") != VERSION or review.get("kind") != "AdmissionReview" or not uid:
            raise SourceError(f"review: expected an AdmissionReview of {VERSION} with a request and its uid")
        response: dict[str, object] = {"uid": uid, "allowed": True}
        patch = self.patch(request)
        if patch:
            response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
        return {"apiVersion": VERSION, "kind": "AdmissionReview", "response": response}

    def patch(self, request: JsonValue) -> list[Operation]:
        """Return what is to be changed in the object of a request."""
        item = member(request, "object")
        if not isinstance(item, Mapping) or text(member(request, "subResource")):
            return []
        user, operation = text(member(request, "userInfo", "username")), text(member(request, "operation"))
        is_controller = any(fnmatchcase(user, pattern) for pattern in self.controllers)
        if operation == "CREATE":
            return self._made_for_another(request, item) if is_controller else self._made(request, item, user)
        if operation != "UPDATE" or (is_controller and _kind(request) != _POD):
            return []
        return self._changed(request, item)

    def _made(self, request: JsonValue, item: JsonValue, user: str) -> list[Operation]:
        namespace, made = text(member(request, "namespace")), KINDS.get(_kind(request), OTHER)
        is_name = 0 < len(user) <= LONGEST_NAME and user.isprintable()
        stamp = self.seal.stamp(user, namespace) if is_name else NO_STAMP
        holders = set(places_of(item, made))
        return _edits(item, made, lambda place: stamp if place in holders else NO_STAMP)

    def _made_for_another(self, request: JsonValue, item: JsonValue) -> list[Operation]:
        made = KINDS.get(_kind(request), OTHER)
        user = self.seal.user_of(annotations_of(item), text(member(request, "namespace")))
        if _kind(request) == _POD:
            kept = _stamp_at(item, METADATA) if user is not None else NO_STAMP
            return _edits(item, made, lambda place: kept if place == METADATA else NO_STAMP)
        if user is None or not made.passes_on:
            return []
        stamp, holders = _stamp_at(item, METADATA), set(places_of(item, made))
        return _edits(item, made, lambda place: stamp if place in holders else _stamp_at(item, place))

    def _changed(self, request: JsonValue, item: JsonValue) -> list[Operation]:
        """Who made an object stays who made it, and what was no stamp does not become one."""
        old, made = member(request, "oldObject"), KINDS.get(_kind(request), OTHER)
        is_stamped = self.seal.user_of(annotations_of(old), text(member(request, "namespace"))) is not None
        stamp = _stamp_at(old, METADATA) if is_stamped else NO_STAMP
        holders = set(places_of(item, made)) if is_stamped else set()
        return _edits(item, made, lambda place: stamp if place in holders else _stamp_at(old, place))


def _kind(request: JsonValue) -> tuple[str, str]:
    return text(member(request, "kind", "group")), text(member(request, "kind", "kind"))


def _stamp_at(item: JsonValue, place: Place) -> Stamp:
    """Return what stands under our keys in the annotations of `place`."""
    found = words(member(_at(item, place), _ANNOTATIONS))
    return {key: found[key] for key in KEYS if key in found}


def _at(value: JsonValue, place: Place) -> JsonValue:
    for step in place:
        if isinstance(value, Mapping) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, Sequence) and not isinstance(value, str) and isinstance(step, int):
            value = value[step] if step < len(value) else None
        else:
            return None
    return value


def _edits(item: JsonValue, made: Made, wanted: Callable[[Place], Stamp]) -> list[Operation]:
    """Return what makes every stamp of an object the wanted one."""
    holders = list(places_of(item, made))
    strays = [place for place in _stamped(item) if place not in set(holders)]
    return [edit for place in (*holders, *strays) for edit in _edits_at(item, place, wanted(place))]


def _edits_at(item: JsonValue, place: Place, stamp: Stamp) -> Iterator[Operation]:
    holder = _at(item, place)
    if holder is None:
        if stamp and str(place[-1]).lower().endswith("metadata"):  # anything else is not ours to make up
            yield {"op": "add", "path": pointer(place), "value": {_ANNOTATIONS: dict(stamp)}}
        return
    annotations = member(holder, _ANNOTATIONS)
    if annotations is None:
        if stamp and isinstance(holder, Mapping):
            yield {"op": "add", "path": pointer((*place, _ANNOTATIONS)), "value": dict(stamp)}
        return
    if not isinstance(annotations, Mapping):
        return  # the API refuses such an object itself
    for key in KEYS:
        path = pointer((*place, _ANNOTATIONS, key))
        if key in stamp and annotations.get(key) != stamp[key]:
            yield {"op": "add", "path": path, "value": stamp[key]}
        elif key not in stamp and key in annotations:
            yield {"op": "remove", "path": path}


def _stamped(item: JsonValue) -> Iterator[Place]:
    """Yield every place in an object whose annotations have one of our keys."""
    waiting: list[tuple[Place, JsonValue]] = [((), item)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, Mapping):
            if place and place[-1] == _ANNOTATIONS and any(key in value for key in KEYS):
                yield place[:-1]
            waiting += [((*place, key), inner) for key, inner in value.items() if isinstance(inner, Mapping | list)]
        elif isinstance(value, list):
            waiting += [((*place, at), inner) for at, inner in enumerate(value)]


def pointer(place: Place) -> str:
    """Return a place as a JSON pointer (RFC 6901)."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in place)
