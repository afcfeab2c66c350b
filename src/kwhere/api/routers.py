"""Routers of the API: what every route has beside its own, so that routes are built once and stand as they are."""

from fastapi import APIRouter
from fastapi.routing import APIRoute

PREFIX = "/api/v1"
PROBLEM_RESPONSES: dict[int | str, dict[str, object]] = {
    "4XX": {"description": "What is wrong, as RFC 9457 has it", "content": {"application/problem+json": {}}}
}


def api_router(tag: str) -> APIRouter:
    """Return a router of paths below `/api/v1`.

    An application takes its routes themselves: to include the router would build each of them anew, models and all.
    """
    return APIRouter(prefix=PREFIX, tags=[tag], responses=PROBLEM_RESPONSES, generate_unique_id_function=_operation_id)


def _operation_id(route: APIRoute) -> str:
    return route.name
