"""The grammar of macro texts, with SillyTavern's way of recovering from errors.

Every text can be parsed. An unclosed macro is *incomplete*: its characters are text, but complete macros inside it
still count. The parser has its own stack, so that nesting costs memory, not recursion.
"""

from __future__ import annotations

from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit.silly_tavern._macros.lexer import (
    BRACE,
    CLOSE,
    COLON,
    COMMENT,
    DOUBLE_COLON,
    END,
    FLAG,
    NAME,
    OPEN,
    OPERATOR,
    PREFIX,
    PUNCTUATION,
    RUN,
    STEP,
    TEXT,
    VARIABLE,
    is_single_token,
    tokenize,
)
from tavernkit.silly_tavern._macros.limits import MAX_TOKENS


@dataclass(slots=True)
class Span:
    """An argument or a shorthand's value: from its first to its last token, and the macros in it."""

    start: int
    end: int
    empty: bool = True
    macros: list[ParsedMacro] = field(default_factory=list["ParsedMacro"])


@dataclass(slots=True)
class ParsedMacro:
    """One ``{{...}}``. Shorthands have a ``prefix``; ``borrowed`` means that its ``}}`` was only assumed."""

    start: int
    end: int
    flags: str = ""
    name: str | None = None
    prefix: str = ""
    operator: str = ""
    args: list[Span] = field(default_factory=list[Span])
    value: Span | None = None
    complete: bool = False
    borrowed: bool = False
    clean: bool = True


@dataclass(frozen=True, slots=True)
class ParsedText:
    """The macros at the top of a text, and how many errors there were.

    In a *clean* text any part between two macros parses to exactly the macros it has here.
    """

    text: str
    macros: list[ParsedMacro]
    lexing_errors: list[int]
    parsing_errors: list[int]
    tokens: int = 0
    too_long: bool = False
    """True if the text has too many tokens and was not parsed."""

    @property
    def clean(self) -> bool:
        """True if there were no errors."""
        return not self.lexing_errors and not self.parsing_errors


_IN_DOCUMENT, _IN_ARG, _IN_LOOSE_ARG, _IN_VALUE = range(4)

_STARTS_MACRO = FLAG | COMMENT | PREFIX | NAME
_STARTS_ITEM = TEXT | BRACE | OPEN
_ARG_TOKENS = OPEN | RUN | COLON | PUNCTUATION
_LOOSE_ARG_TOKENS = _ARG_TOKENS | DOUBLE_COLON
_VALUE_TOKENS = OPEN | RUN

# Where a broken macro ends and the outer rule continues, by context.
_RESUME = (_STARTS_ITEM, _ARG_TOKENS, _LOOSE_ARG_TOKENS, _VALUE_TOKENS)
# What may follow a macro, so that a missing `}}` can be assumed before it.
_FOLLOW = (_STARTS_ITEM, _LOOSE_ARG_TOKENS, _LOOSE_ARG_TOKENS, _VALUE_TOKENS)


@dataclass(slots=True)
class _Frame:
    """A macro that is being read: where it is, which kind of content it is in, where it may resume."""

    macro: ParsedMacro
    context: int
    mask: int
    content: int = _IN_DOCUMENT
    span: Span | None = None


def parse(text: str) -> ParsedText:
    """Parse a text; never raises."""
    return _Parser(text).run()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        tokens = tokenize(text)
        self.kinds, self.starts, self.ends = tokens.kinds, tokens.starts, tokens.ends
        self.lexing_errors, self.too_long = tokens.errors, tokens.too_many
        self.errors: list[int] = []
        self.frames: list[_Frame] = []
        self.items: list[ParsedMacro] = []
        self.at = 0

    def run(self) -> ParsedText:
        kinds = self.kinds
        while True:
            if self.frames:
                self.read_content(self.frames[-1])
                continue
            kind = kinds[self.at]
            if kind == END:
                break
            if kind == OPEN and kinds[self.at + 1] & _STARTS_MACRO:
                self.open_macro(_IN_DOCUMENT)
            elif kind & _STARTS_ITEM:  # braces without a macro are text, not an error
                self.at += 1
            else:
                self.note_error()
                while not kinds[self.at] & (_STARTS_ITEM | END):
                    self.at += 1
        if self.lexing_errors:
            for macro in self.items:
                macro.clean = False
        count = MAX_TOKENS if self.too_long else len(kinds)
        return ParsedText(self.text, self.items, self.lexing_errors, self.errors, count, self.too_long)

    def open_macro(self, context: int) -> None:
        kinds, at = self.kinds, self.at
        macro = ParsedMacro(self.starts[at], self.ends[at])
        outer = self.frames[-1].mask if self.frames else END
        frame = _Frame(macro, context, outer | _RESUME[context] | CLOSE)
        self.frames.append(frame)
        at += 1
        # Any flags in any order, repeated or not: only # and / mean something, and neither does on shorthands.
        flags: list[str] = []
        while kinds[at] == FLAG:
            flags.append(self.text[self.starts[at]])
            macro.end = self.ends[at]
            at += 1
        macro.flags = "".join(flags)
        self.at = at
        kind = kinds[at]
        if kind & (NAME | COMMENT):
            macro.name = self.take(macro)
            self.open_args(frame)
        elif kind == PREFIX:
            macro.prefix = self.take(macro)
            self.read_variable(frame)
        else:
            self.note_error()
            self.resume(inside=False)

    def take(self, macro: ParsedMacro) -> str:
        at = self.at
        macro.end = self.ends[at]
        self.at = at + 1
        return self.text[self.starts[at] : macro.end]

    def open_args(self, frame: _Frame) -> None:
        kind = self.kinds[self.at]
        if kind == DOUBLE_COLON:
            frame.content = _IN_ARG
            frame.mask |= DOUBLE_COLON
            # The loop that reads arguments treats each `::` as the start of the next one.
            return
        if not kind & _LOOSE_ARG_TOKENS:
            self.close(frame)
            return
        # After a colon or a space, everything is one argument, later `::` included.
        frame.content = _IN_LOOSE_ARG
        if kind == COLON:
            self.take(frame.macro)
        frame.span = Span(frame.macro.end, frame.macro.end)
        frame.macro.args.append(frame.span)
        if not self.kinds[self.at] & _LOOSE_ARG_TOKENS:
            # `{{x:}}` is an error, but has one empty argument; `{{x }}` has none.
            self.note_error()
            self.resume(inside=True)

    def read_variable(self, frame: _Frame) -> None:
        macro = frame.macro
        macro.name = ""
        if self.kinds[self.at] != VARIABLE:
            self.note_error()
            if self.kinds[self.at + 1 : self.at + 2] == [VARIABLE]:
                self.at += 1
            elif self.kinds[self.at] != CLOSE:  # `{{.}}` is a variable with the empty name
                self.resume(inside=True)
                return
        if self.kinds[self.at] == VARIABLE:
            macro.name = self.take(macro)
        if self.kinds[self.at] == STEP:
            macro.operator = self.take(macro)
        elif self.kinds[self.at] == OPERATOR:
            macro.operator = self.take(macro)
            frame.content = _IN_VALUE
            frame.span = macro.value = Span(macro.end, macro.end)
            return
        self.close(frame)

    def read_content(self, frame: _Frame) -> None:
        """Read tokens of an argument or value until a macro in it opens or it ends."""
        kinds, macro, content = self.kinds, frame.macro, frame.content
        own = _RESUME[content]
        while True:
            kind = kinds[self.at]
            if kind == OPEN:
                self.open_macro(content)
                return
            if kind == DOUBLE_COLON and content == _IN_ARG:
                self.take(macro)
                frame.span = Span(macro.end, macro.end)
                macro.args.append(frame.span)
            elif kind & own:
                self.extend(frame, self.starts[self.at], self.ends[self.at])
                self.at += 1
            else:
                self.close(frame)
                return

    def extend(self, frame: _Frame, start: int, end: int) -> None:
        span = frame.span
        if span is not None:
            if span.empty:
                span.start, span.empty = start, False
            span.end = end
        frame.macro.end = end

    def close(self, frame: _Frame) -> None:
        """Read the ``}}``; if it is missing, assume it, drop one token before it, or resume later."""
        kinds, at = self.kinds, self.at
        if kinds[at] != CLOSE:
            self.note_error()
            if kinds[at] & _FOLLOW[frame.context]:
                frame.macro.borrowed = True
                self.finish()
                return
            if kinds[at] == END or kinds[at + 1] != CLOSE or not self.is_one_token(at):
                self.resume(inside=False)
                return
            self.at = at + 1
        self.take(frame.macro)
        frame.macro.complete = True
        self.finish()

    def is_one_token(self, at: int) -> bool:
        return self.kinds[at] != RUN or is_single_token(self.text[self.starts[at] : self.ends[at]])

    def finish(self) -> None:
        """Leave the innermost macro and add it to the outer one."""
        macro = self.frames.pop().macro
        if not self.frames:
            self.items.append(macro)
            return
        outer = self.frames[-1]
        self.extend(outer, macro.start, macro.end)
        if outer.span is not None:
            outer.span.macros.append(macro)

    def resume(self, *, inside: bool) -> None:
        """Skip to the first token with which any open rule can continue, and leave the rules that cannot.

        ``inside`` is True if the error is in the body of the innermost macro, which a ``}}`` ends.
        """
        kinds, frames = self.kinds, self.frames
        mask = frames[-1].mask
        if not inside:
            outer = frames[-2].mask if len(frames) > 1 else END
            mask = outer | _RESUME[frames[-1].context]
        while not kinds[self.at] & mask:
            self.at += 1
        kind = kinds[self.at]
        while frames:
            frame = frames[-1]
            if inside and kind == CLOSE:
                self.close(frame)
                return
            if inside and kind == DOUBLE_COLON and frame.content == _IN_ARG:
                return
            self.finish()
            if kind & _RESUME[frame.context]:
                return
            inside = True

    def note_error(self) -> None:
        self.errors.append(self.starts[self.at])
        for frame in reversed(self.frames):
            if not frame.macro.clean:
                break
            frame.macro.clean = False
