"""Compiled templates."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tavernkit._dataclass import dataclass
from tavernkit._values import IdentityCache, LRUCache
from tavernkit.silly_tavern._context_template.handlebars.limits import MAX_CACHED_CHARS, MAX_CACHED_TEMPLATES
from tavernkit.silly_tavern._context_template.handlebars.nodes import Program
from tavernkit.silly_tavern._context_template.handlebars.parser import parse
from tavernkit.silly_tavern._context_template.handlebars.rendering import Names, Piece, Rendering
from tavernkit.silly_tavern._context_template.handlebars.values import parameters


@dataclass(frozen=True, slots=True)
class Template:
    """A template that was parsed once; it can be rendered in any number of threads."""

    text: str
    program: Program

    @classmethod
    def compile(cls, text: str) -> Template:
        """Parse a template, or return the cached one; a malformed one raises ``InvalidContextTemplateError``."""
        if len(text) > MAX_CACHED_CHARS:
            return cls(text, parse(text))
        if type(text) is not str:  # traced templates are not shared with equal texts
            return _TRACED.get(text) or _TRACED.put(cls(text, parse(text)), text)
        return _CACHE.get_or_make(text, lambda: cls(text, parse(text)))

    def render(self, texts: Mapping[str, str], missing: Callable[[str], str]) -> list[Piece]:
        """Fill in the parameters. ``missing`` is called with every other name."""
        return Rendering(self.text, Names(missing)).start(self.program, parameters(texts))


_CACHE: LRUCache[str, Template] = LRUCache(MAX_CACHED_TEMPLATES)
_TRACED: IdentityCache[Template] = IdentityCache(MAX_CACHED_TEMPLATES)
