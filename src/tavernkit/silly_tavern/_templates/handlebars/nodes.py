"""The tree of a template, and the white space that tags remove: with ``~``, and around blocks on their own lines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import trim_end, trim_start

_SCOPED = re.compile(r"^\.|this\b", re.ASCII)


@dataclass(frozen=True, slots=True)
class Strip:
    """Whether a tag removes the white space before and after it (``~``)."""

    before: bool = False
    after: bool = False


NO_STRIP = Strip()


@dataclass(slots=True)
class Content:
    """Literal text. ``value`` is ``original`` without the white space that tags remove, and begins at ``position``."""

    original: str
    value: str
    position: int
    stripped_before: bool = False
    stripped_after: bool = False


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal text, number, boolean or null in a tag."""

    value: str | float | bool | None
    original: str


@dataclass(frozen=True, slots=True)
class Path:
    """A name, or names joined by dots; ``up`` counts ``../``. With ``data`` it began with ``@``."""

    parts: tuple[str, ...]
    up: int
    data: bool
    original: str

    @property
    def is_name(self) -> bool:
        """True if it is a single name, which may be a helper's; an ``@`` before it does not matter."""
        return len(self.parts) == 1 and not self.up and not self.scoped

    @property
    def scoped(self) -> bool:
        """True if it is a scoped path; Handlebars treats every name that ends in ``this`` as one."""
        return _SCOPED.search(self.original) is not None


@dataclass(frozen=True, slots=True)
class Call:
    """The content of a tag or parentheses: a name and, for helpers, arguments."""

    path: Path
    params: Sequence[Expression]
    hash: Mapping[str, Expression]
    position: int

    @property
    def has_arguments(self) -> bool:
        """True if it can only mean a helper."""
        return bool(self.params or self.hash)


Expression: TypeAlias = "Literal | Path | Call"


@dataclass(frozen=True, slots=True)
class Mustache:
    """A tag with a value."""

    call: Call
    strip: Strip


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment, of which only the position on the line matters."""

    strip: Strip


@dataclass(slots=True)
class Program:
    """A sequence of statements; ``chained`` if it is the rest of an ``else if``."""

    body: list[Statement] = field(default_factory=list["Statement"])
    block_params: tuple[str, ...] = ()
    chained: bool = False


@dataclass(slots=True)
class Block:
    """A block tag with its body."""

    call: Call
    program: Program | None
    inverse: Program | None
    open_strip: Strip
    inverse_strip: Strip
    close_strip: Strip


Statement: TypeAlias = "Content | Mustache | Comment | Block"


_REST_OF_LINE = re.compile(r"[ \t]*\r?\n?")


@dataclass(frozen=True, slots=True)
class _Around:
    """How a statement affects the text around it, and which of its ends may be alone on a line."""

    strip: Strip
    opens_line: bool = False
    closes_line: bool = False
    inline: bool = False


def remove_whitespace(program: Program) -> None:
    """Remove white space in the order of Handlebars; a text that lost some keeps the rest of its line."""
    _program(program, root=True)


def _program(program: Program, *, root: bool) -> None:
    body = program.body
    for index, statement in enumerate(body):
        around = _around(statement)
        if around is None:
            continue
        after_break = _ends_line(body, index, root=root)
        before_break = _begins_line(body, index, root=root)
        if around.strip.after:
            _cut_start(body, index + 1, everything=True)
        if around.strip.before:
            _cut_end(body, index - 1, everything=True)
        if around.inline and after_break and before_break:
            _cut_start(body, index + 1)
            _cut_end(body, index - 1)
        if isinstance(statement, Block):
            if around.opens_line and after_break:
                _cut_start(_first_body(statement), 0)
                _cut_end(body, index - 1)
            if around.closes_line and before_break:
                _cut_start(body, index + 1)
                last = _last_body(statement)
                _cut_end(last, len(last) - 1)


def _around(statement: Statement) -> _Around | None:
    match statement:
        case Block():
            return _block(statement)
        case Mustache():
            return _Around(statement.strip)
        case Comment():
            return _Around(statement.strip, inline=True)
        case Content():
            return None


def _block(block: Block) -> _Around:
    for program in (block.program, block.inverse):
        if program is not None:
            _program(program, root=False)
    body = _first_body(block)
    inverse = block.inverse if block.program is not None else None
    first_inverse, last_inverse = _inverse_bodies(inverse)
    around = _Around(
        Strip(block.open_strip.before, block.close_strip.after),
        opens_line=_begins_line(body, -1, root=False),
        closes_line=_ends_line(_chosen(first_inverse, body), len(_chosen(first_inverse, body)), root=False),
    )
    if block.open_strip.after:
        _cut_start(body, 0, everything=True)
    if first_inverse is None or last_inverse is None:
        if block.close_strip.before:
            _cut_end(body, len(body) - 1, everything=True)
        return around
    if block.inverse_strip.before:
        _cut_end(body, len(body) - 1, everything=True)
    if block.inverse_strip.after:
        _cut_start(first_inverse, 0, everything=True)
    if block.close_strip.before:
        _cut_end(last_inverse, len(last_inverse) - 1, everything=True)
    if _ends_line(body, len(body), root=False) and _begins_line(first_inverse, -1, root=False):
        _cut_end(body, len(body) - 1)
        _cut_start(first_inverse, 0)
    return around


def _first_body(block: Block) -> list[Statement]:
    program = block.program if block.program is not None else block.inverse
    return program.body if program is not None else []


def _last_body(block: Block) -> list[Statement]:
    program = block.inverse if block.inverse is not None else block.program
    return program.body if program is not None else []


def _inverse_bodies(inverse: Program | None) -> tuple[list[Statement] | None, list[Statement] | None]:
    """Return the first and the last body of a chain of ``else if``; for a plain ``else`` the same one twice."""
    if inverse is None:
        return None, None
    if not inverse.chained:
        return inverse.body, inverse.body
    head = inverse.body[0]
    first = head.program if isinstance(head, Block) else None
    last: Program | None = inverse
    while last is not None and last.chained:
        end = last.body[-1]
        last = end.program if isinstance(end, Block) else None
    return (first.body if first is not None else None), (last.body if last is not None else None)


def _chosen(first: list[Statement] | None, other: list[Statement]) -> list[Statement]:
    return other if first is None else first


def _ends_line(body: Sequence[Statement], index: int, *, root: bool) -> bool:
    """Return True if the text before a position ends with a line break and spaces, or is empty."""
    if index == 0:
        return root
    before = body[index - 1]
    if not isinstance(before, Content):
        return False
    kept = trim_end(before.original)
    return "\n" in before.original[len(kept) :] or (not kept and root and index == 1)


def _begins_line(body: Sequence[Statement], index: int, *, root: bool) -> bool:
    """Return True if the text after a position begins with spaces and a line break, or is empty."""
    if index + 1 >= len(body):
        return root
    after = body[index + 1]
    if not isinstance(after, Content):
        return False
    kept = trim_start(after.original)
    cut = len(after.original) - len(kept)
    return "\n" in after.original[:cut] or (not kept and root and index + 2 >= len(body))


def _cut_start(body: Sequence[Statement], index: int, *, everything: bool = False) -> None:
    text = body[index] if 0 <= index < len(body) else None
    if not isinstance(text, Content) or (text.stripped_before and not everything):
        return
    value = trim_start(text.value) if everything else _without_rest_of_line(text.value)
    text.stripped_before = value != text.value
    text.position += len(text.value) - len(value)
    text.value = value


def _without_rest_of_line(text: str) -> str:
    found = _REST_OF_LINE.match(text)
    return text if found is None else text[found.end() :]


def _cut_end(body: Sequence[Statement], index: int, *, everything: bool = False) -> None:
    text = body[index] if 0 <= index < len(body) else None
    if not isinstance(text, Content) or (text.stripped_after and not everything):
        return
    value = trim_end(text.value) if everything else text.value.rstrip(" \t")
    text.stripped_after = value != text.value
    text.value = value
