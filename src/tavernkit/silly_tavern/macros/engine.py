"""The Macros 2.0 engine."""

from __future__ import annotations

from collections.abc import Iterable

from tavernkit.silly_tavern.macros.diagnostics import Report
from tavernkit.silly_tavern.macros.document import Document
from tavernkit.silly_tavern.macros.environment import MacroEnvironment
from tavernkit.silly_tavern.macros.evaluator import evaluate
from tavernkit.silly_tavern.macros.expander import Expander
from tavernkit.silly_tavern.macros.limits import MAX_CACHED_CHARS, MAX_CACHED_CHARS_IN_ALL, MAX_CACHED_TEXTS
from tavernkit.silly_tavern.macros.processors import (
    COMPLETING,
    PREPARING,
    Processor,
    arrange,
    complete,
    is_plain,
    prepare,
)
from tavernkit.silly_tavern.macros.registry import MacroRegistry
from tavernkit.silly_tavern.macros.run import Overrides, Run, refused
from tavernkit.text.traced import plain
from tavernkit.values import LRUCache


class MacroEngine(Expander):
    """Expands texts as SillyTavern's Macros 2.0 do. Thread-safe; keep one, it remembers what it has parsed.

    >>> from tavernkit.silly_tavern.macros import MacroEnvironment
    >>> MacroEngine().expand("{{user}} meets {{char}}.", MacroEnvironment(user_name="Ann", character_name="Bel"))
    'Ann meets Bel.'

    ``registry`` defaults to all built-in macros. Processors run on whole texts before parsing and after expansion,
    among the engine's own in the order of their priorities.
    """

    def __init__(
        self,
        registry: MacroRegistry | None = None,
        *,
        pre_processors: Iterable[Processor] = (),
        post_processors: Iterable[Processor] = (),
    ) -> None:
        if registry is None:
            from tavernkit.silly_tavern.macros.builtin import default_registry

            registry = default_registry()
        self.registry = registry
        pre, post = tuple(pre_processors), tuple(post_processors)
        self._preparing = arrange(PREPARING, pre) if pre else None
        self._completing = arrange(COMPLETING, post) if post else None
        self._cache: LRUCache[str, Document] = LRUCache(MAX_CACHED_TEXTS)
        self._cached_chars = 0
        self._version = registry.version

    def run(self, text: str, environment: MacroEnvironment, overrides: Overrides, send: Report) -> str:
        """Expand a text that is not plain."""
        budget = environment.budget
        if budget is not None and budget.spent:
            return refused(text, budget, send)
        run = Run(self, environment, overrides, send, text)
        try:
            return self.resolve(text, run)
        finally:
            if budget is not None:
                budget.spend(run.budget.steps, run.budget.produced)

    def resolve(self, text: str, run: Run) -> str:
        """Expand a text within a run: prepare, parse, evaluate, complete."""
        document = self.compile(text, run.environment)
        document.report_syntax(run)
        return self.complete(evaluate(document, run), run.environment)

    def compile(self, text: str, environment: MacroEnvironment) -> Document:
        """Parse a text, or find it parsed."""
        if self._version != self.registry.version:
            self._cache.clear()
            self._version = self.registry.version
        if self._preparing is not None:
            for process in self._preparing:
                text = process(text, environment)
        if type(text) is not str:
            return self._compile_traced(text)
        document = self._cache.get(text)
        if document is None:
            prepared = prepare(text) if self._preparing is None else text
            document = Document.whole(self.registry, prepared)
            self._remember(text, document)
        return document

    def _compile_traced(self, text: str) -> Document:
        """Make a document of a traced text: it holds parts of that very text, so only the parser's work is shared."""
        document = Document.whole(self.registry, prepare(text) if self._preparing is None else text)
        known = self._cache.get(plain(text))
        if known is not None:
            document.source.take_parsed(known.source)
        return document

    def _remember(self, text: str, document: Document) -> None:
        if len(text) > MAX_CACHED_CHARS:
            return
        self._cached_chars += len(text)
        if self._cached_chars > MAX_CACHED_CHARS_IN_ALL:
            self._cache.clear()
            self._cached_chars = len(text)
        self._cache.put(text, document)

    def complete(self, text: str, environment: MacroEnvironment) -> str:
        """Run the processors that come after expansion."""
        if self._completing is None:
            return complete(text)
        for process in self._completing:
            text = process(text, environment)
        return text

    @property
    def prepares_parts(self) -> bool:
        """Whether a part of a prepared text has to be prepared again: only processors of the user's can ask for it."""
        return self._preparing is not None

    def is_plain(self, text: str) -> bool:
        """Return True if a text can hold nothing to expand."""
        return super().is_plain(text) or (self._preparing is None and self._completing is None and is_plain(text))
