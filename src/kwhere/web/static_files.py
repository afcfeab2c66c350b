"""Built assets: hashed names from the manifest, cached for ever; pages go on without them and say how to build them."""

import json
import mimetypes
from importlib import resources
from importlib.resources.abc import Traversable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

FOR_EVER = "public, max-age=31536000, immutable"
NEVER_OLD = "no-cache"


class Assets:
    """What `npm run build` made, read once into memory (some 150 KiB)."""

    def __init__(self, directory: Traversable | None = None) -> None:
        root = directory or resources.files("kwhere.web") / "static" / "dist"
        self._manifest = _read_manifest(root)
        self._files = {name: (root / name).read_bytes() for name in self._manifest.values()}

    @property
    def are_built(self) -> bool:
        """Return whether there is anything to serve."""
        return bool(self._manifest)

    def url(self, name: str) -> str:
        """Return the address of an asset by its plain name."""
        return f"/static/{self._manifest.get(name, name)}"

    async def serve(self, request: Request) -> Response:
        """Answer for `/static/{name}`: hashed names for ever, plain ones checked each time."""
        name = request.path_params["name"]
        hashed = self._manifest.get(name, name)
        content = self._files.get(hashed)
        if content is None:
            raise HTTPException(404)
        media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
        caching = FOR_EVER if name == hashed else NEVER_OLD
        return Response(content, media_type=media_type, headers={"cache-control": caching})


def _read_manifest(root: Traversable) -> dict[str, str]:
    try:
        text = (root / "manifest.json").read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {str(name): str(hashed) for name, hashed in json.loads(text).items()}
