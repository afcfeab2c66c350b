"""The API as one application: routes under /api/v1, problems, compression, the door in front."""

from fastapi import FastAPI, HTTPException, Request
from fastapi.routing import APIRoute

from kwhere.access.doorman import Doorman
from kwhere.access.guard import Guard, GuardRules
from kwhere.api.compression import Compression
from kwhere.api.problems import install_problems
from kwhere.api.routes import asker, audit, nodes, places, site, units, usage
from kwhere.reports.sources import Sources

ROUTES = (units, nodes, usage, places, site, asker, audit)
ALL_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


def build_app(sources: Sources, rules: GuardRules, doorman: Doorman | None = None) -> FastAPI:
    """Return the application. Pages are mounted beside it by the caller, behind the same door.

    Without `doorman` the rules' token is the only way in.
    """
    app = FastAPI(
        title="kwhere",
        summary="Where did the kWh go?",
        version=sources.version or "0",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
    )
    app.state.sources = sources
    install_problems(app)
    for module in ROUTES:
        app.router.routes.extend(module.router.routes)
    for path in ("/api", "/api/{rest:path}"):
        app.add_api_route(path, _no_route, methods=ALL_METHODS, include_in_schema=False)
    app.add_middleware(Compression, minimum_size=1024, compresslevel=5)
    app.add_middleware(Guard, rules=rules, doorman=doorman)
    return app


def _no_route(request: Request) -> None:
    """Answer for paths no route took: pages are mounted at the root and would take them otherwise."""
    path = request.url.path
    routes = [route for module in ROUTES for route in module.router.routes if isinstance(route, APIRoute)]
    allowed = {method for route in routes if route.path_regex.match(path) for method in route.methods or ()}
    if allowed:
        raise HTTPException(405, headers={"Allow": ", ".join(sorted(allowed))})
    raise HTTPException(404)
