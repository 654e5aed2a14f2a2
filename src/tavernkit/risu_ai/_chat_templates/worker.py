"""The job of worker processes that render chat templates. Requests and replies are JSON objects."""

from __future__ import annotations

import json
from collections.abc import Callable

from tavernkit._values import LRUCache
from tavernkit.risu_ai._chat_templates.rendering import CompiledTemplate, Rendering, TemplateProblem
from tavernkit.risu_ai._limits import CACHED_TEMPLATES


class Handler:
    """Compiles templates, keeps some, and renders."""

    def __init__(self) -> None:
        self._compiled: LRUCache[str, CompiledTemplate] = LRUCache(CACHED_TEMPLATES)

    def handle(self, payload: bytes, ask: Callable[[bytes], bytes]) -> bytes:
        """Compile a template, and render it if requested."""
        request = json.loads(payload)
        text: str = request["text"]
        reply: dict[str, object] = {}
        try:
            template = self._compiled.get_or_make(text, lambda: CompiledTemplate(text))
            reply["unsupported"] = template.unsupported
            if "rendering" in request:
                reply["prompt"] = template.render(Rendering(**request["rendering"]), request["seconds"])
        except TemplateProblem as problem:
            reply["problem"] = str(problem)
        return json.dumps(reply).encode()
