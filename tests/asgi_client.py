"""Asks an ASGI application over HTTP without a network."""

from collections.abc import Mapping
from typing import Any

import anyio
import httpx

from kwhere.access.principal import PRINCIPAL_KEY, Principal, anyone


def let_in(app: Any, principal: Principal | None = None) -> Any:
    """Return an application that is asked by `principal`, as if the door had found them."""

    async def asked(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, PRINCIPAL_KEY: principal or anyone()}, receive, send)

    return asked


class AsgiClient:
    """A synchronous client; cookies are kept between requests, redirects are not followed."""

    def __init__(self, app: Any, base_url: str = "http://testserver", *, raise_errors: bool = True) -> None:
        self._app = app
        self._base_url = base_url
        self._raise_errors = raise_errors
        self.cookies = httpx.Cookies()

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
        data: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app=self._app, raise_app_exceptions=self._raise_errors)
            async with httpx.AsyncClient(transport=transport, base_url=self._base_url, cookies=self.cookies) as client:
                answer = await client.request(method, path, params=params, headers=headers, data=data)
                self.cookies = client.cookies
                return answer

        return anyio.run(ask)

    def get(
        self,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        return self.request("GET", path, params=params, headers=headers)

    def post(
        self, path: str, *, data: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        return self.request("POST", path, data=data, headers=headers)
