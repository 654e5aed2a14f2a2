"""The interface of both macro engines, and the Macros 2.0 engine."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from tavernkit._dataclass import dataclass
from tavernkit._macros import size_of
from tavernkit._text.traced import join, plain
from tavernkit._values import IdentityCache, LRUCache
from tavernkit.errors import Warn, log_warning
from tavernkit.silly_tavern._macros.call import Diagnostic, Report, reporter
from tavernkit.silly_tavern._macros.document import Document, Node
from tavernkit.silly_tavern._macros.environment import MacroEnvironment
from tavernkit.silly_tavern._macros.limits import (
    MAX_CACHED_CHARS,
    MAX_CACHED_CHARS_IN_ALL,
    MAX_CACHED_TEXTS,
    MAX_CACHED_TRACED_TEXTS,
    MAX_DEPTH,
    MAX_KNOWN_CHARS,
    MAX_KNOWN_NAMES,
)
from tavernkit.silly_tavern._macros.nodes import StrayTag
from tavernkit.silly_tavern._macros.registry import MacroNames, MacroRegistry
from tavernkit.silly_tavern._macros.run import DynamicMacro, Overrides, PostProcess, Run, refused
from tavernkit.silly_tavern._macros.source import (
    COMPLETING,
    PREPARING,
    Processor,
    arrange,
    complete,
    is_plain,
    prepare,
)

if TYPE_CHECKING:
    from tavernkit.silly_tavern._macros.nodes import MacroNode, Steps
    from tavernkit.silly_tavern._macros.shorthand import ShorthandNode


_HARMLESS = frozenset({"original"})
"""Macros of an expansion's own that are not those for names."""

_LEFT_OVER = re.compile(r"\{\{\s*+([A-Za-z][\w-]*+)[^{}\n]{0,80}\}\}")


def left_over_macros(text: str) -> Iterator[tuple[str, str]]:
    """Find apparent macros in an expanded text: the name in lower case, and the whole call.

    SillyTavern does not expand the results of macros, so variables and other values can contain macros.
    """
    if "{{" in text:
        for found in _LEFT_OVER.finditer(text):
            yield found[1].lower(), found[0]


@dataclass(frozen=True, slots=True)
class MacroResult:
    """An expanded text and its diagnostics."""

    text: str
    diagnostics: tuple[Diagnostic, ...] = ()


class Expander(ABC):
    """Base of engines that expand macros; each engine implements ``run()``."""

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
        leave: MacroNames = (),
        post_process: PostProcess | None = None,
    ) -> str:
        """Expand the macros of a text.

        Malformed parts are reported and stay in the text.

        Args:
            text: The text.
            environment: The data that macros read.
            warn: Called with each warning; by default they are logged.
            strict: Raise an error instead of warning.
            original: The value of ``{{original}}``, which works once.
            macros: More macros for this text, which override registered ones.
            user_name: Replaces the environment's user name.
            character_name: Replaces the environment's character name.
            group: Replaces the environment's ``{{group}}``.
            card: False to make the macros of the character card empty (with the legacy engine: to leave them).
            leave: Macros that stay without a warning, for callers that replace them themselves.
            post_process: Changes the result of each macro.

        Raises:
            MacroError: Something is wrong with the text, in strict mode.
        """
        if self.is_plain(text):
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
        report = reporter(log_warning if warn is None else warn, strict=strict)
        expanded = self.run(text, environment, overrides, report)
        # Escaped braces are meant to stay.
        if strict and "\\{" not in text:
            left = [macro for name, macro in left_over_macros(expanded) if name not in leave]
            if left:
                message = f"{left[0]} came out of a macro and stays as text"
                report(Diagnostic(kind="unconsumed", message=message, macro=left[0], remaining=tuple(left)))
        return expanded

    def evaluate(self, text: str, environment: MacroEnvironment, overrides: Overrides | None = None) -> MacroResult:
        """Expand a text and return its diagnostics instead of reporting them.

        Args:
            text: The text.
            environment: The data that macros read.
            overrides: Values that replace the environment's own.
        """
        if self.is_plain(text):
            return MacroResult(text)
        diagnostics: list[Diagnostic] = []
        expanded = self.run(text, environment, overrides or Overrides(), diagnostics.append)
        return MacroResult(expanded, tuple(diagnostics))

    @abstractmethod
    def run(self, text: str, environment: MacroEnvironment, overrides: Overrides, send: Report) -> str:
        """Expand a text that is not plain.

        Args:
            text: The text.
            environment: The data that macros read.
            overrides: Values that replace the environment's own.
            send: Called with each diagnostic.
        """

    def is_plain(self, text: str) -> bool:
        """Return True if expanding the text has no effect."""
        return not text


def evaluate(document: Document, run: Run) -> str:
    """Return the text of a document, with everything in it evaluated from left to right."""
    waiting: list[tuple[Steps, MacroNode | ShorthandNode, Iterator[str | Node], list[str], int]] = []
    parts, out = iter(document.parts(run)), list[str]()
    while True:
        for part in parts:
            if isinstance(part, str):
                out.append(part)
                continue
            if isinstance(part, StrayTag) or part.simple:
                out.append(part.value(run))
                continue
            steps, node, text = part.steps(run), part, None
            break
        else:
            text = join("", out)
            if not waiting:
                return text
            steps, node, parts, out, run.base = waiting.pop()
        try:  # to its result, or to the next document it needs
            inner, base = next(steps) if text is None else steps.send(text)
        except StopIteration as end:
            out.append(end.value)
            continue
        if len(waiting) >= MAX_DEPTH:
            steps.close()
            out.append(node.source)
            _report_depth(run, node)
            continue
        waiting.append((steps, node, parts, out, run.base))
        if base is not None:
            run.base = base
        parts, out = iter(inner.parts(run)), []


def _report_depth(run: Run, node: MacroNode | ShorthandNode) -> None:
    run.report_limit(
        "depth",
        f"macros are nested more than {MAX_DEPTH} levels deep; what is deeper stays as text",
        macro=node.name,
        position=node.position,
        count=MAX_DEPTH,
    )


class MacroEngine(Expander):
    """Expands texts like SillyTavern's Macros 2.0. Thread-safe; reuse it, because it caches parsed texts.

    >>> from tavernkit.silly_tavern import MacroEnvironment
    >>> MacroEngine().expand("{{user}} meets {{char}}.", MacroEnvironment(user_name="Ann", character_name="Bel"))
    'Ann meets Bel.'

    ``registry`` defaults to all built-in macros. Processors run on whole texts before parsing and after expansion,
    among the engine's own in the order of their priorities.

    Args:
        registry: The macros.
        pre_processors: Run on whole texts before parsing.
        post_processors: Run on whole texts after expansion.
    """

    def __init__(
        self,
        registry: MacroRegistry | None = None,
        *,
        pre_processors: Iterable[Processor] = (),
        post_processors: Iterable[Processor] = (),
    ) -> None:
        if registry is None:
            from tavernkit.silly_tavern._macros.builtin import default_registry

            registry = default_registry()
        self.registry = registry
        pre, post = tuple(pre_processors), tuple(post_processors)
        self._preparing = arrange(PREPARING, pre) if pre else None
        self._completing = arrange(COMPLETING, post) if post else None
        self._cache: LRUCache[str, Document] = LRUCache(MAX_CACHED_TEXTS)
        self._traced: IdentityCache[Document] = IdentityCache(MAX_CACHED_TRACED_TEXTS)
        self._traced_results: IdentityCache[tuple[str, int, int]] = IdentityCache(MAX_CACHED_TRACED_TEXTS)
        self._cached_chars = 0
        self._version = registry.version

    def run(self, text: str, environment: MacroEnvironment, overrides: Overrides, send: Report) -> str:
        """Expand a text that is not plain."""
        budget = environment.budget
        if budget is not None and budget.spent:
            return refused(text, budget, send)
        names = self._names(environment, overrides)
        # A traced text may have traced names; what is kept for plain ones must not.
        if names is not None and type(text) is str and (type(names[0]) is not str or type(names[1]) is not str):
            names = None
        known = self._with_names(text, names) if names is not None else None
        if known is not None:
            expanded, work, produced = known
            if budget is not None:
                budget.spend(work, produced)
        else:
            run = Run(self, environment, overrides, send, text)
            try:
                expanded = self.resolve(text, run)
            finally:
                run.close()
                if budget is not None:
                    budget.spend(run.budget.work, run.budget.produced)
            if names is not None and not run.budget.reports:
                self._remember_named(text, names, (expanded, run.budget.work, run.budget.produced))
        return expanded if budget is None or budget.keep(size_of(expanded)) else refused(text, budget, send)

    def depends_on_names(self, text: str, environment: MacroEnvironment, overrides: Overrides) -> bool:
        """Return True if the expansion of a text is known to depend only on the names of user and character.

        Args:
            text: A text that was expanded.
            environment: The data that macros read.
            overrides: Values that replaced the environment's own.
        """
        names = self._names(environment, overrides)
        if names is None:
            return False
        if type(text) is str:
            user, character = names
            names = plain(user), plain(character)
        return self._with_names(text, names) is not None

    def _names(self, environment: MacroEnvironment, overrides: Overrides) -> tuple[str, str] | None:
        """The names that texts are expanded with, if they may be all that results depend on."""
        if self._preparing is not None or self._completing is not None:
            return None
        macros = overrides.macros
        if overrides.post_process is not None or (macros and not _HARMLESS.issuperset(macros)):
            return None
        user, character = overrides.user_name, overrides.character_name
        user = environment.user_name if user is None else user
        return user, environment.character_name if character is None else character

    def _with_names(self, text: str, names: tuple[str, str]) -> tuple[str, int, int] | None:
        if self._version != self.registry.version:
            return None
        if type(text) is not str:
            return self._traced_results.get(text, *names) or self._filled_in(text, names)
        document = self._cache.get(text)
        return document.known.get(names) if document is not None else None

    def _filled_in(self, text: str, names: tuple[str, str]) -> tuple[str, int, int] | None:
        """Return a traced text with names in place of its macros, if that is known to be its expansion."""
        document = self._cache.get(plain(text))
        known = document.known.get((plain(names[0]), plain(names[1]))) if document is not None else None
        filled = document.with_names(text, names) if document is not None and known is not None else None
        if known is None or filled is None or complete(filled) != known[0]:
            return None
        return self._traced_results.put((complete(filled), *known[1:]), text, *names)

    def _remember_named(self, text: str, names: tuple[str, str], made: tuple[str, int, int]) -> None:
        document = self._cache.get(text) if type(text) is str else self._traced.get(text)
        if document is None or document.named_macros is None or len(made[0]) > MAX_KNOWN_CHARS:
            return
        if type(text) is not str:
            self._traced_results.put(made, text, *names)
            return
        if len(document.known) >= MAX_KNOWN_NAMES:
            document.known.clear()
        document.known[names] = made

    def resolve(self, text: str, run: Run) -> str:
        """Expand a text within a run: prepare, parse, evaluate, complete.

        Args:
            text: The text.
            run: The run that it is part of.
        """
        document = self.compile(text, run.environment)
        document.report_syntax(run)
        return self.complete(evaluate(document, run), run.environment)

    def compile(self, text: str, environment: MacroEnvironment) -> Document:
        """Parse a text, or return the cached result.

        Args:
            text: The text.
            environment: Passed to the processors that prepare the text.
        """
        if self._version != self.registry.version:
            self._cache.clear()
            self._traced.clear()
            self._traced_results.clear()
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
        """Make a document from a traced text. It is not cached, but shares the cached parse result."""
        made = self._traced.get(text)
        if made is not None:
            return made
        document = Document.whole(self.registry, prepare(text) if self._preparing is None else text)
        known = self._cache.get(plain(text))
        if known is not None:
            document.source.take_parsed(known.source)
        if len(text) <= MAX_CACHED_CHARS:
            self._traced.put(document, text)
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
        """Run the processors that come after expansion.

        Args:
            text: The expanded text.
            environment: Passed to the processors.
        """
        if self._completing is None:
            return complete(text)
        for process in self._completing:
            text = process(text, environment)
        return text

    @property
    def prepares_parts(self) -> bool:
        """True if parts of a prepared text must be prepared again, which only custom processors can require."""
        return self._preparing is not None

    def is_plain(self, text: str) -> bool:
        """Return True if a text contains nothing to expand."""
        return super().is_plain(text) or (self._preparing is None and self._completing is None and is_plain(text))
