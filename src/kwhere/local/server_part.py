"""The server part of the installation: `pip install kwhere` alone brings the agent, `run`, `top` and `doctor`."""

import importlib.util

from kwhere.core.errors import Unavailable

SERVER_MODULES = (
    *("alembic", "cryptography", "duckdb", "fastapi", "jinja2", "jwt", "python_multipart", "sqlalchemy", "tzdata"),
)


def require_server_part() -> None:
    """Do nothing where the server's packages are installed. Raises Unavailable (absent) that names the command."""
    absent = [name for name in SERVER_MODULES if importlib.util.find_spec(name) is None]
    if absent:
        raise lacking(absent[0])


def lacking(module: str) -> Unavailable:
    """Return the error for a missing package of the server part."""
    return Unavailable("absent", f"the server part is not installed (no {module}): pip install 'kwhere[server]'")
