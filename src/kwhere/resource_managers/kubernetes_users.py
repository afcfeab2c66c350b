"""Whose a pod is by what stands on it: our webhook's sealed stamp, else the annotation that a site trusts."""

from dataclasses import dataclass

from kwhere.devices.json_answer import JsonValue, member, text
from kwhere.discovery.kubernetes_objects import annotations_of
from kwhere.resource_managers.kubernetes_stamps import Seal

_ROBOT = "system:"


@dataclass(frozen=True, slots=True)
class PodUsers:
    """What is believed of pods."""

    annotation: str = ""
    """The site's own; "" for none."""
    seal: Seal | None = None
    """Proves what our admission webhook wrote; None: it is not used."""

    def user_of(self, pod: JsonValue) -> str | None:
        """Return a person; None where nobody is named, or a service account, whom nothing is charged to."""
        maker = self.maker_of(pod)
        if maker is not None and not maker.startswith(_ROBOT):
            return maker
        return annotations_of(pod).get(self.annotation) or None if self.annotation else None

    def maker_of(self, pod: JsonValue) -> str | None:
        """Return who made a pod, be it a person or a service account; None where no stamp says so."""
        if self.seal is None:
            return None
        return self.seal.user_of(annotations_of(pod), text(member(pod, "metadata", "namespace")))


TRUST_NOTHING = PodUsers()
