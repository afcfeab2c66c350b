"""An identity provider of our own: publishes keys, signs tokens, changes and loses its keys; a real HTTP server."""

import json
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa


class OidcProvider:
    """Serves discovery and keys on loopback until `close`."""

    def __init__(self) -> None:
        provider = self
        self.asked: list[str] = []
        self.status = 200
        self.keys: dict[str, Any] = {"k1": rsa.generate_private_key(65537, 2048)}
        self.extra: list[object] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked.append(self.path)
                body = json.dumps(provider._document(self.path)).encode()
                self.send_response(provider.status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self._server.server_port}/realms/hpc"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _document(self, path: str) -> dict[str, object]:
        if path.endswith("/.well-known/openid-configuration"):
            return {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/certs?v=1"}
        return {"keys": [*(jwk(kid, key) for kid, key in self.keys.items()), *self.extra]}

    def token(self, kid: str | None = "k1", *, key: Any = None, algorithm: str = "RS256", **claims: object) -> str:
        """Return a token that holds for an hour; a claim that is None is left out."""
        held = {"iss": self.issuer, "aud": "kwhere", "exp": seconds_on(3600), "preferred_username": "alice", **claims}
        given = {name: value for name, value in held.items() if value is not None}
        headers = {} if kid is None else {"kid": kid}
        return jwt.encode(given, self.keys[kid or "k1"] if key is None else key, algorithm, headers)


def seconds_on(seconds: int) -> int:
    """Return the wall clock's time so many seconds from now, which the library checks by."""
    return int(time.time()) + seconds


def jwk(kid: str, key: Any) -> Mapping[str, object]:
    if isinstance(key, ec.EllipticCurvePrivateKey):
        words = jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    else:
        words = jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return {**words, "kid": kid, "use": "sig"}
