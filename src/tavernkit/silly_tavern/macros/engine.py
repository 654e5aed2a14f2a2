"""The Macros 2.0 engine."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tavernkit.errors import ConfigError, Warn, log_warning
from tavernkit.silly_tavern.macros.diagnostics import Diagnostic, reporter
from tavernkit.silly_tavern.macros.document import Document
from tavernkit.silly_tavern.macros.environment import MacroEnvironment
from tavernkit.silly_tavern.macros.evaluator import evaluate
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
from tavernkit.silly_tavern.macros.run import DynamicMacro, Overrides, PostProcess, Run
from tavernkit.values import LRUCache


@dataclass(frozen=True, slots=True)
class MacroResult:
    """An expanded text and everything there was to say about it."""

    text: str
    diagnostics: tuple[Diagnostic, ...] = ()


class MacroEngine:
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

    def expand(
        self,
        text: str,
        environment: MacroEnvironment,
        *,
        warn: Warn | None = None,
        strict: bool = False,
        original: str | None = None,
        macros: Mapping[str, DynamicMacro] | None = None,
        user_name: str | None = None,
        character_name: str | None = None,
        group: str | None = None,
        card: bool = True,
        leave: Collection[str] = (),
        post_process: PostProcess | None = None,
    ) -> str:
        """Expand the macros of a text.

        What is wrong with the text goes to ``warn`` (by default the log) and stays in the text; with ``strict`` it
        raises a :class:`~tavernkit.errors.MacroError`. ``original`` is what ``{{original}}`` gives, once. ``macros``
        are more macros for this text, which win over registered ones; a name in ``leave`` stays without a warning,
        for callers that replace it themselves. ``user_name``, ``character_name`` and ``group`` stand in for the
        environment's names. Without ``card`` the macros of the character card are empty. ``post_process`` changes
        what each macro gives.
        """
        if self._is_plain(text):
            return text
        overrides = Overrides(
            user_name=user_name,
            character_name=character_name,
            group=group,
            original=original,
            card=card,
            macros=macros,
            post_process=post_process,
            leave=leave,
        )
        send = reporter(log_warning if warn is None else warn, strict=strict)
        return self.resolve(text, Run(self, environment, overrides, send, text))

    def evaluate(self, text: str, environment: MacroEnvironment, overrides: Overrides | None = None) -> MacroResult:
        """Expand a text and give the diagnostics with it instead of reporting them."""
        if self._is_plain(text):
            return MacroResult(text)
        diagnostics: list[Diagnostic] = []
        run = Run(self, environment, overrides or Overrides(), diagnostics.append, text)
        expanded = self.resolve(text, run)
        return MacroResult(expanded, tuple(diagnostics))

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
        document = self._cache.get(text)
        if document is None:
            prepared = prepare(text) if self._preparing is None else text
            document = Document.whole(self.registry, prepared)
            self._remember(text, document)
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

    def _is_plain(self, text: str) -> bool:
        """Tell whether a text can hold nothing to expand."""
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise ConfigError(f"the text to expand must be text, not {type(text).__name__}")
        return not text or (self._preparing is None and self._completing is None and is_plain(text))
