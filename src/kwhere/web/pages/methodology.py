"""Methodology: every formula in words and symbols, with the settings in force."""

from starlette.requests import Request
from starlette.responses import Response

from kwhere.web.pages.overview import reporting_factor
from kwhere.web.rendering import Pages


def methodology_page(pages: Pages, request: Request) -> Response:
    """Return the page."""
    account = pages.sources.account
    # Nodes are for those who see the site; the formulas are for everybody.
    nodes = account.nodes(limit=200).items if pages.sources.principal.visibility.site else ()
    methods = sorted({(str(m.component), str(m.method), m.source) for node in nodes for m in node.methods})
    context = {
        "methods": methods,
        "policies": sorted({node.idle_policy for node in nodes if node.idle_policy}),
        "factor": reporting_factor(account.emission_factors()),
        "settings": pages.sources.settings_in_force(),
    }
    return pages.render(request, "methodology.html", context)
