"""Names that say that their value is a secret: of parameters and headers, which settings and addresses would show."""

import re

_SECRET = re.compile(r"(^|[_-])(token|key|apikey|secret|password|passwd|pwd|sig|signature|auth)$", re.IGNORECASE)


def names_secret(name: str) -> bool:
    """Return whether what is called `api_key`, `X-Auth-Token`, … belongs in a file."""
    return _SECRET.search(name) is not None
