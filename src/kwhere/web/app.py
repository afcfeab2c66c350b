"""The pages as one application, mounted beside the API behind the same door."""

import traceback
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from urllib.parse import parse_qsl

import structlog
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kwhere.access.principal import principal_of
from kwhere.core.errors import ConfigError, KwhereError, NotFound, NotPermitted, Unavailable
from kwhere.database.reader import AmbiguousNode
from kwhere.reports.sources import Sources
from kwhere.web.pages.account import project_page, user_page
from kwhere.web.pages.accounts import projects_page, users_page
from kwhere.web.pages.ahead import ahead_page
from kwhere.web.pages.clusters import cluster_nodes_page, cluster_page, clusters_page
from kwhere.web.pages.emissions import choose_zone_page, emissions_page
from kwhere.web.pages.methodology import methodology_page
from kwhere.web.pages.nodes import node_page, nodes_page
from kwhere.web.pages.overview import overview_page
from kwhere.web.pages.unit import unit_page
from kwhere.web.pages.units import units_page
from kwhere.web.pages.usage import usage_page
from kwhere.web.pages.waiting import waiting_page
from kwhere.web.rendering import Pages, build_environment
from kwhere.web.settings import WebSettings
from kwhere.web.static_files import Assets

_log = structlog.get_logger(__name__)

Page = Callable[[Pages, Request], Response]
Change = Callable[[Pages, Request, dict[str, str]], Response]
Endpoint = Callable[[Request], Awaitable[Response]]

PAGES: tuple[tuple[str, Page], ...] = (
    ("/", overview_page),
    ("/units", units_page),
    ("/units/{cluster}/{manager}/{unit:path}", unit_page),
    ("/nodes", nodes_page),
    ("/nodes/{node}", node_page),
    ("/clusters", clusters_page),
    ("/clusters/{cluster}", cluster_page),
    ("/clusters/{cluster}/nodes", cluster_nodes_page),
    ("/queue", waiting_page),
    ("/usage", usage_page),
    ("/users", users_page),
    ("/users/{user:path}", user_page),
    ("/projects", projects_page),
    ("/projects/{project:path}", project_page),
    ("/emissions", emissions_page),
    ("/emissions/ahead", ahead_page),
    ("/methodology", methodology_page),
)
CHANGES: tuple[tuple[str, Change], ...] = (("/emissions/zone", choose_zone_page),)
MAX_FORM_BYTES = 8192


def build_pages(sources: Sources, settings: WebSettings | None = None) -> Starlette:
    """Return the application that serves every page and its assets."""
    pages = Pages(sources, settings or WebSettings(), Assets(), build_environment())
    routes = [Route(path, _endpoint(pages, page), methods=["GET"]) for path, page in PAGES]
    routes += [Route(path, _form_endpoint(pages, change), methods=["POST"]) for path, change in CHANGES]
    routes.append(Route("/static/{name}", pages.assets.serve, methods=["GET"]))

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return error_page(pages, request, error.status_code, str(error.detail))

    return Starlette(routes=routes, exception_handlers={HTTPException: refused})


def _endpoint(pages: Pages, page: Page) -> Endpoint:
    """Reading and rendering happen in a worker thread; whatever fails becomes a page that says so."""

    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(_answer, pages, page, request)

    return endpoint


def _form_endpoint(pages: Pages, change: Change) -> Endpoint:
    """A change comes as a small form; the door has checked where it is from."""

    async def endpoint(request: Request) -> Response:
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > MAX_FORM_BYTES:
                return error_page(pages, request, 413, "The form is larger than any form of these pages.")
        form = dict(parse_qsl(body.decode("utf-8", "replace")))
        return await run_in_threadpool(_answer, pages, lambda p, r: change(p, r, form), request)

    return endpoint


_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (NotFound, 404),
    (NotPermitted, 403),
    (Unavailable, 503),
    (AmbiguousNode, 409),
    (ConfigError, 409),
    (ValueError, 400),
)


def _answer(pages: Pages, page: Page, request: Request) -> Response:
    try:
        pages = pages.seen_by(principal_of(request.scope))
        return page(pages, request)
    except (KwhereError, ValueError) as error:
        status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
        if status == 500:
            _report(request, error)
        return error_page(pages, request, status, str(error))
    except HTTPException:
        raise
    except Exception as error:  # noqa: BLE001 - the one runner of a page's request
        _report(request, error)
        return error_page(pages, request, 500, "This is a fault of the server; its log says more.")


def _report(request: Request, error: Exception) -> None:
    trace = "".join(traceback.format_exception(error))
    _log.error("page failed", path=request.url.path, error=repr(error), trace=trace)


_ADVICE = {
    400: "The address holds something this page does not understand.",
    403: "You may not see this, or not change it.",
    409: "The address could mean several things, or the change cannot be made here.",
    404: "There is nothing here, or nothing any more.",
    503: "A part this page needs does not answer; it may be starting.",
}


def error_page(pages: Pages, request: Request, status: int, detail: str) -> Response:
    """Return a page in the usual frame that says what is wrong and where to go on."""
    phrase = HTTPStatus(status).phrase
    contact = pages.sources.principal.contact if status == HTTPStatus.FORBIDDEN else ""
    advice = _ADVICE.get(status, "")
    context = {"status": status, "phrase": phrase, "detail": detail, "advice": advice, "contact": contact}
    return pages.render(request, "error.html", context, status)
