"""Errors as RFC 9457 problems: every answer that is not a success has the same shape."""

import traceback
from http import HTTPStatus

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from kwhere.access.principal import PRINCIPAL_KEY, Principal
from kwhere.access.roles import NOBODY_TO_ASK
from kwhere.core.errors import KwhereError, NotFound, NotPermitted, SourceError, Unavailable
from kwhere.database.reader import AmbiguousNode, BadCursor

MEDIA_TYPE = "application/problem+json"

_log = structlog.get_logger(__name__)


class BadRequest(KwhereError):  # noqa: N818 - named as its status is
    """A parameter is not what this route takes; the message says which and what was expected."""


def problem(status: int, detail: str, **more: object) -> JSONResponse:
    """Return a problem whose title is the status' own phrase; `more` are members of its own."""
    content = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail, **more}
    return JSONResponse(content, status_code=status, media_type=MEDIA_TYPE)


def install_problems(app: FastAPI) -> None:
    """Make every error of `app` a problem."""
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(AmbiguousNode, _ambiguous_node)
    app.add_exception_handler(BadCursor, _kwhere_error)
    app.add_exception_handler(KwhereError, _kwhere_error)
    app.add_exception_handler(Exception, _unexpected)


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    answer = problem(error.status_code, _detail_of(error, request))
    answer.headers.update(error.headers or {})
    return answer


def _detail_of(error: HTTPException, request: Request) -> str:
    if error.status_code == HTTPStatus.NOT_FOUND and error.detail == HTTPStatus.NOT_FOUND.phrase:
        return f"there is no {request.url.path}; the routes are listed at /openapi.json"
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return f"{request.url.path} does not take {request.method}"
    return str(error.detail)


async def _validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    errors = [{"parameter": str(entry["loc"][-1]), "detail": str(entry["msg"])} for entry in error.errors()]
    first = errors[0]
    return problem(422, f"{first['parameter']}: {first['detail']}", errors=errors)


async def _ambiguous_node(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, AmbiguousNode)
    return problem(409, str(error), clusters=list(error.clusters))


_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (NotFound, 404),
    (BadCursor, 400),
    (NotPermitted, 403),
    (BadRequest, 400),
    (Unavailable, 503),
    (SourceError, 502),
)


async def _kwhere_error(request: Request, error: Exception) -> JSONResponse:
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), None)
    if status is None:
        return await _unexpected(request, error)
    if isinstance(error, NotPermitted):
        return problem(status, f"{error}; ask {_contact(request)}")
    if isinstance(error, (Unavailable, SourceError)) and not _sees_sources(request):
        return problem(status, "a source that the server asks did not answer; its log says which")
    return problem(status, str(error))


def _sees_sources(request: Request) -> bool:
    """Return whether the asker may know the addresses of the server's sources, which its errors name."""
    found = request.scope.get(PRINCIPAL_KEY)
    return isinstance(found, Principal) and found.sees_everything


def _contact(request: Request) -> str:
    found = request.scope.get(PRINCIPAL_KEY)
    return found.contact if isinstance(found, Principal) else NOBODY_TO_ASK


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    trace = "".join(traceback.format_exception(error))
    _log.error("request failed", path=request.url.path, error=repr(error), trace=trace)
    return problem(500, "this is a fault of the server; its log says more")
