"""The parts of an installation in a Kubernetes cluster, as YAML with the names of one site put in."""

import base64
import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources

from kwhere.core.errors import ConfigError

PARTS = {
    "rights": "namespace, and what the server may list and watch",
    "certificates": "certificates of agents, server and webhook, by cert-manager",
    "agent": "the agent on every node",
    "server": "the server, with a volume",
    "webhook": "the admission webhook, which tells who made what",
    "kubeflow": "the pages behind Kubeflow's gateway",
    "server-token": "a lasting token for a server outside of the cluster",
    "agent-token": "a lasting token for agents that are no pods, to ask their kubelet",
}
"""What each part is, in the order in which they are applied."""

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*")
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
_SECRET = re.compile(r"[A-Za-z0-9._~+/=-]{16,512}")
_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"
_GAP = re.compile(r"@\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True)
class Site:
    """What is put in; what a part needs and is None or empty is an error of that part alone."""

    namespace: str = "kwhere"
    image: str | None = None
    cluster: str | None = None
    control_plane: tuple[str, ...] = ()
    """Addresses or networks from which API servers ask."""
    ca: bytes | None = None
    """The authority of the webhook's certificate in PEM; None: cert-manager writes it."""
    has_manager: bool = True
    """Whether the server's shipped settings name the cluster's manager; else a site's own do."""
    host: str | None = None
    """Name of the pages behind Kubeflow's gateway."""
    proxy_secret: str | None = None

    def gaps(self) -> dict[str, str | None]:
        """Return what stands in each gap. Raises ConfigError for what would not be one word of YAML."""
        return {
            "namespace": _checked(self.namespace, _LABEL, "--namespace", "a name of lower-case letters and digits"),
            "image": _checked(self.image, _IMAGE, "--image", "a name of an image"),
            "cluster": _checked(self.cluster, _CLUSTER, "--cluster", "a name of letters, digits and ._-"),
            "managers": self._managers(),
            "control_plane": _blocks(self.control_plane),
            "ca_bundle": _bundle(self.ca),
            "host": _checked(self.host, _HOST, "--host", "a host name"),
            "proxy_secret": _checked(self.proxy_secret, _SECRET, "--proxy-secret-file", "16 characters or more"),
        }

    def _managers(self) -> str:
        if not self.has_manager:
            return "# resource_managers: in site.yaml"
        entry = ("resource_managers:", "  - manager: kubernetes", f'    cluster: "{self.cluster}"')
        return ("\n" + 4 * " ").join(entry)


_OPTIONS = {
    "image": "--image with the image that `make image` built, where your nodes can pull it",
    "cluster": "--cluster with what the cluster is called here",
    "control_plane": "--control-plane with the addresses of your API servers (kubectl get endpoints kubernetes)",
    "host": "--host with the name of the pages",
    "proxy_secret": "--proxy-secret-file with the secret that the server knows too",
}


def render(parts: Iterable[str], site: Site) -> str:
    """Return the documents of some parts as one text of YAML. Raises ConfigError where a part needs something more."""
    gaps = site.gaps()
    return "---\n".join(_filled(part, gaps) for part in PARTS if part in frozenset(parts))


def template(part: str) -> str:
    """Return the text of a part with its gaps, `@{name}`: `$` is the configuration's own sign."""
    return (resources.files("kwhere.manifests") / f"{part}.yaml").read_text(encoding="utf-8")


def _filled(part: str, gaps: Mapping[str, str | None]) -> str:
    text = template(part)
    lacking = [name for name in dict.fromkeys(_GAP.findall(text)) if gaps[name] is None]
    if lacking:
        raise ConfigError(f"manifests {part}: expected {'; '.join(_OPTIONS[name] for name in lacking)}")
    return _GAP.sub(lambda gap: gaps[gap[1]] or "", text)


def _checked(word: str | None, form: re.Pattern[str], option: str, expected: str) -> str | None:
    if word is not None and form.fullmatch(word) is None:
        shown = "something else" if form is _SECRET else repr(word)
        raise ConfigError(f"{option}: expected {expected}, found {shown}")
    return word


def _blocks(addresses: Iterable[str]) -> str | None:
    try:
        networks = [ipaddress.ip_network(address) for address in addresses]
    except ValueError as error:
        raise ConfigError(f"--control-plane: expected an address or a network: {error}") from error
    return ("\n" + 8 * " ").join(f'- ipBlock: {{cidr: "{network}"}}' for network in networks) or None


def _bundle(ca: bytes | None) -> str:
    if ca is None:
        return "# caBundle: cert-manager writes it"
    if _CERTIFICATE not in ca or b"PRIVATE KEY" in ca:
        raise ConfigError("--ca-file: expected certificates in PEM and no key")
    return f"caBundle: {base64.b64encode(ca).decode()}"
