"""What the Kubernetes API tells: labels and uids of this node's pods, and a counters file in a ConfigMap."""

from collections.abc import Mapping
from pathlib import Path

from kwhere.core.errors import ConfigError, NotFound, SourceError, Unavailable
from kwhere.dcgm.holdings import PodFacts
from kwhere.devices.json_answer import JsonValue, elements, member, parse_object, text
from kwhere.transport.http import HttpClient
from kwhere.transport.settings import HttpClientSettings

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_ANSWER_SECONDS = 20.0


class ClusterApi:
    """The API as a pod of the cluster reaches it, with its service account."""

    def __init__(self, url: str, account: Path = ACCOUNT) -> None:
        """`account` holds `token` and `ca.crt`."""
        self._url = url
        self._account = account

    def pods(self, node: str) -> Mapping[tuple[str, str], PodFacts]:
        """Return what the cluster knows of the node's pods, by namespace and name. Raises Unavailable, SourceError."""
        answer = self._get("/api/v1/pods", {"fieldSelector": f"spec.nodeName={node}"})
        found = {}
        for item in elements(answer.get("items")):
            about = member(item, "metadata")
            labels = member(about, "labels")
            pairs = labels.items() if isinstance(labels, Mapping) else ()
            key = text(member(about, "namespace")), text(member(about, "name"))
            found[key] = PodFacts(text(member(about, "uid")), {name: text(value) for name, value in pairs})
        return found

    def counters(self, configmap: str) -> bytes:
        """Return the key `metrics` of NAMESPACE:NAME. Raises ConfigError, Unavailable, SourceError."""
        namespace, _, name = configmap.partition(":")
        answer = self._get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
        found = member(answer, "data", "metrics")
        if not isinstance(found, str):
            raise ConfigError(f"configmap_data: {configmap}: expected the key metrics, found none")
        return found.encode()

    def _get(self, path: str, params: Mapping[str, str] | None = None) -> Mapping[str, JsonValue]:
        certificate = self._account / "ca.crt"
        settings = HttpClientSettings(
            total_timeout_seconds=_ANSWER_SECONDS,
            token_file=self._account / "token",
            ca_file=certificate if certificate.exists() else None,
        )
        with HttpClient(self._url, settings) as client:  # made anew: the token is renewed every hour
            answer = client.get(path, params=params)
        if answer.status in (401, 403):
            raise Unavailable("permission", f"{self._url}{path}: the service account may not read it")
        if answer.status == 404:
            raise Unavailable("absent", f"{self._url}{path}: is not there")
        if answer.status != 200:
            raise SourceError(f"{self._url}{path}: expected status 200, found {answer.status}")
        return parse_object(answer.body, f"{self._url}{path}")


def api_of(environ: Mapping[str, str], account: Path = ACCOUNT) -> ClusterApi:
    """Return the API of the cluster that we run in. Raises NotFound outside of one."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise NotFound("not in a cluster: KUBERNETES_SERVICE_HOST is not set")
    shown = f"[{host}]" if ":" in host else host
    return ClusterApi(f"https://{shown}:{port}", account)
