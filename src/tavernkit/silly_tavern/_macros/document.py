"""Compiled texts: documents of literal text and nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tavernkit._text.traced import expanded, join, plain
from tavernkit.silly_tavern._macros.call import Diagnostic
from tavernkit.silly_tavern._macros.limits import MAX_TOKENS
from tavernkit.silly_tavern._macros.nodes import MacroNode, Part, StrayTag
from tavernkit.silly_tavern._macros.parser import ParsedMacro, Span
from tavernkit.silly_tavern._macros.registry import MacroRegistry
from tavernkit.silly_tavern._macros.shorthand import ShorthandNode
from tavernkit.silly_tavern._macros.source import FreeClosers, Source, takes_scope

if TYPE_CHECKING:
    from tavernkit.silly_tavern._macros.run import Run

Node: TypeAlias = MacroNode | ShorthandNode | StrayTag
"""A part that is not literal text."""

_SCOPES = {".": "local", "$": "global"}
_NAMES = {"user": 0, "char": 1}
"""The macros that give names, with their places in the names of user and character."""


class Document:
    """A part of a source that is evaluated as a whole: its macros ``low`` to ``high``, its text ``start`` to ``end``.

    A negative ``high`` means all macros.
    ``again`` marks a source that is a part of a larger one which was parsed before: malformed text is parsed again at
    each level, and that is counted. An ``operand`` is the value of a shorthand. Parts are made on first use, so that
    unused branches cost nothing.
    """

    __slots__ = (
        "_branches",
        "_operand",
        "_parts",
        "_rest",
        "again",
        "end",
        "high",
        "known",
        "low",
        "registry",
        "source",
        "start",
    )

    def __init__(
        self,
        registry: MacroRegistry,
        source: Source,
        low: int,
        high: int,
        start: int,
        end: int,
        *,
        again: bool = False,
        operand: Span | None = None,
    ) -> None:
        self.registry = registry
        self.source = source
        self.low, self.high = low, high
        self.start, self.end = start, end
        self.again = again
        self._operand = operand
        self._parts: list[str | Node] | None = None
        self._branches: tuple[Document, Document | None] | None = None
        self._rest: Document | None = None
        self.known: dict[tuple[str, str], tuple[str, int, int]] = {}
        """Of a text whose macros give nothing but names: by the names of user and character the text, and what making
        it counted."""

    @property
    def named_macros(self) -> frozenset[str] | None:
        """The names of its macros, in lower case, if all of them return names; None otherwise."""
        found: set[str] = set()
        for part in self._parts or ():
            if isinstance(part, str):
                continue
            if not isinstance(part, MacroNode) or part.target is None or not part.target[1].only_names:
                return None
            found.add(part.key)
        return frozenset(found)

    def with_names(self, text: str, names: tuple[str, str]) -> str | None:
        """Return a traced copy of the text with names in place of its macros; None if it has others, or other parts.

        Args:
            text: The same text, traced.
            names: The names of user and character.
        """
        if self._parts is None or plain(text) != self.source.text:
            return None
        pieces: list[str] = []
        end = 0
        for part in self._parts:
            start = end
            if isinstance(part, str):
                end += len(part)
                pieces.append(text[start:end])
                continue
            if not isinstance(part, MacroNode) or part.key not in _NAMES or part.args or part.scoped:
                return None
            _, start, end = part.span
            pieces.append(expanded(names[_NAMES[part.key]], part.name, text[start:end]))
        return join("", pieces)

    @classmethod
    def whole(cls, registry: MacroRegistry, text: str) -> Document:
        """Compile a whole text."""
        return cls(registry, Source(text), 0, -1, 0, len(text))

    @property
    def text(self) -> str:
        """The text as written."""
        return self.source.text[self.start : self.end]

    @property
    def offset(self) -> int:
        """Where it starts, in UTF-16 code units of the original text."""
        return self.source.offset_at(self.start)

    def may_parse(self, run: Run) -> bool:
        """Count a text that is parsed again; return False if the limit is reached."""
        return not self.again or run.take_parsing(self.end - self.start, self.source.position)

    def report_syntax(self, run: Run) -> None:
        """Count its tokens and report the errors of its source: one diagnostic per phase."""
        source = self.source
        parsed = source.parsed
        run.budget.tokens += parsed.tokens
        if parsed.too_long:
            message = f"a text has more than {MAX_TOKENS} parts of macros and stays as it is"
            run.report_limit("tokens", message, position=source.position)
        for phase, errors in (("lexing", parsed.lexing_errors), ("parsing", parsed.parsing_errors)):
            if errors:
                more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
                run.report(
                    Diagnostic(
                        kind="syntax",
                        message=f"malformed macro{more}",
                        phase=phase,
                        count=len(errors),
                        position=source.position + errors[0],
                    )
                )

    def parts(self, run: Run) -> list[str | Node]:
        """Literal text and nodes, in order."""
        if not self.may_parse(run):
            return [self.text]
        if self._parts is None:
            self._parts = self._compile() if self._operand is None else self._compile_operand(self._operand)
        return self._parts

    def without_start(self, length: int) -> Document:
        """Return the document without its first characters, which must be literal and of constant length."""
        if self._rest is None:
            start = self.start + length
            if self.again:
                self._rest = self._parsed_again(start, self.end)
            else:
                self._rest = Document(self.registry, self.source, self.low, self.high, start, self.end)
        return self._rest

    def branches(self, run: Run) -> tuple[Document, Document | None]:
        """Return the parts before and after the ``{{else}}`` that splits the document, if there is one."""
        if not self.may_parse(run):
            return self, None
        if self._branches is None:
            self._branches = self._split()
        return self._branches

    def _split(self) -> tuple[Document, Document | None]:
        source = self.source
        low, high = (self.low, self.high) if self.high >= 0 else (0, len(source.top))
        found = source.find_else(low, high)
        if found < 0:
            return self, None
        splitter = source.top[found]
        if not source.clean:
            return self._parsed_again(self.start, splitter.start), self._parsed_again(splitter.end, self.end)
        return (
            Document(self.registry, source, low, found, self.start, splitter.start),
            Document(self.registry, source, found + 1, high, splitter.end, self.end),
        )

    def _parsed_again(self, start: int, end: int) -> Document:
        source = self.source
        part = Source(source.text[start:end], position=source.position + start, offset=source.offset_at(start))
        return Document(self.registry, part, 0, -1, 0, end - start, again=True)

    def _compile(self) -> list[str | Node]:
        """Pair the tags of this level and make its nodes."""
        source, registry = self.source, self.registry
        macros = source.macros
        high = len(macros) if self.high < 0 else self.high
        partners = source.partners(registry)
        free: FreeClosers | None = None
        claimed: set[int] = set()
        parts: list[str | Node] = []
        cursor, index = self.start, self.low
        while index < high:
            macro = macros[index]
            if macro.start > cursor:
                parts.append(source.text[cursor : macro.start])
            cursor = macro.end
            closer = -1
            if macro.prefix:
                parts.append(self._shorthand(macro))
            elif source.is_closing(macro):
                parts.append(self._stray(macro, closing=True, known=index in claimed))
            elif takes_scope(macro, registry):
                closer = partners[index] if index < partners[index] < high else -1
                parts.append(self._macro(macro, index, closer))
            else:
                taken = None
                if source.has_closing(macro.name or "", registry):
                    free = free or FreeClosers(source, high, registry)
                    taken = free.claim((macro.name or "").lower(), index)
                if taken is None:
                    parts.append(self._macro(macro, index, -1))
                else:
                    # SillyTavern keeps both tags: a macro that has a closing tag but cannot have a block does not run.
                    claimed.add(taken)
                    parts.append(self._stray(macro, closing=False))
            if closer >= 0:
                cursor = macros[closer].end
                index = closer
            index += 1
        if cursor < self.end:
            parts.append(source.text[cursor : self.end])
        return parts

    def _macro(self, macro: ParsedMacro, index: int, closer: int) -> MacroNode:
        source = self.source
        content = None
        if closer >= 0:
            content = self._block(index, macro.end, closer, source.macros[closer].start)
        name = macro.name or ""
        inner_end = macro.end - 2 if macro.complete else macro.end
        whole_end = macro.end if closer < 0 else source.macros[closer].end
        return MacroNode(
            span=(source, macro.start, whole_end),
            name=name,
            flags=macro.flags,
            target=self.registry.lookup(name.lower()),
            args=tuple(self._argument(macro, span) for span in macro.args),
            frame=self._frame(macro, inner_end),
            content=content,
            offset=source.offset_at(macro.start),
            position=source.position + macro.start,
        )

    def _block(self, opener: int, start: int, closer: int, end: int) -> Part:
        source = self.source
        if source.text.find("{{", start, end) < 0:
            return Part(source.text[start:end])
        if source.clean:
            return Part(None, Document(self.registry, source, opener + 1, closer, start, end))
        return Part(None, self._parsed_again(start, end))

    def _frame(self, macro: ParsedMacro, end: int) -> tuple[str, ...]:
        text, cursor = self.source.text, macro.start + 2
        pieces: list[str] = []
        for span in macro.args:
            pieces.append(text[cursor : span.start])
            cursor = span.end
        pieces.append(text[cursor:end])
        return tuple(pieces)

    def _argument(self, macro: ParsedMacro, span: Span) -> Part:
        source = self.source
        if source.text.find("{{", span.start, span.end) < 0:
            return Part(source.text[span.start : span.end])
        if source.trusts(macro):
            return Part(None, Document(self.registry, source.part(span.macros), 0, -1, span.start, span.end))
        return Part(None, self._parsed_again(span.start, span.end))

    def _shorthand(self, macro: ParsedMacro) -> ShorthandNode:
        span = macro.value
        return ShorthandNode(
            span=(self.source, macro.start, macro.end),
            scope=_SCOPES[macro.prefix],
            name=macro.name or "",
            operator=macro.operator,
            operand=None if span is None else self._operand_part(span),
            position=self.source.position + macro.start,
        )

    def _operand_part(self, span: Span) -> Part:
        if not span.macros:
            return Part(self.source.text[span.start : span.end])
        return Part(None, Document(self.registry, self.source, 0, 0, span.start, span.end, operand=span))

    def _compile_operand(self, span: Span) -> list[str | Node]:
        """Compile the value of a shorthand: its macros are evaluated one by one, tags in it do not pair."""
        text = self.source.text
        parts: list[str | Node] = []
        cursor = span.start
        lost = False
        for macro in span.macros:
            if not lost:
                parts.append(text[cursor : macro.start])
            if macro.prefix:
                parts.append(self._shorthand(macro))
            elif macro.name is None:  # gets its `}}` even if it had none
                parts.append("{{" + text[macro.start + 2 : macro.end] + "}}")
            else:
                parts.append(self._macro(macro, -1, -1))
            # SillyTavern does not know where a macro with an assumed `}}` ends: all text after it is lost, but the
            # macros there still run.
            lost = lost or macro.borrowed
            cursor = macro.end
        if not lost:
            parts.append(text[cursor : span.end])
        return parts

    def _stray(self, macro: ParsedMacro, *, closing: bool, known: bool = False) -> str | StrayTag:
        text = self.source.text[macro.start : macro.end]
        if known:
            return text
        return StrayTag(text, macro.name or "", self.source.position + macro.start, closing)
