"""JSON answers that cannot fail on the way out."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse

from tavernkit.server.storage.columns import storable_json


class SafeJSONResponse(JSONResponse):
    """JSON whose texts are made encodable: models and clients may send lone surrogates."""

    def render(self, content: Any) -> bytes:
        """Write the body."""
        try:
            return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        except (UnicodeEncodeError, ValueError):
            return json.dumps(storable_json(content), ensure_ascii=False, separators=(",", ":")).encode()
