"""The parts of a compiled text: plain text, and nodes that print themselves.

A tree describes how the scanner would read the text. Where that depends on run-time values, a node raises ``Takeover``:
the exception collects the buffers of all open levels, innermost first, and the scanner continues with the rest of the
source. Nothing is evaluated twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tavernkit.risu_ai._cbs.blocks import Block, close_block, expand_each, legacy_block, open_block
from tavernkit.risu_ai._cbs.limits import FREE_CHARACTERS, INSERTED_STEPS, SHORT_TAG
from tavernkit.risu_ai._cbs.registry import CBSFunction
from tavernkit.risu_ai._cbs.run import Run
from tavernkit.risu_ai._cbs.scanner import Level, LevelKind, apply, evaluate, evaluate_expression, split_tag
from tavernkit.risu_ai._cbs.source import joined, needs_joining


class Node(Protocol):
    """Something whose text is only known at run time."""

    def emit(self, run: Run, out: list[str]) -> None:
        """Append its text to the buffer of its level."""
        ...


Part = str | Node
Parts = Sequence[Part]


class Place:
    """The position of a node: its source, its start, and where the scanner would continue inside and after it."""

    __slots__ = ("end", "inside", "level", "source", "start")

    def __init__(self, source: str, level: LevelKind, start: int, inside: int, end: int) -> None:
        self.source = source
        self.level = level
        self.start = start
        self.inside = inside
        self.end = end


class Takeover(Exception):  # noqa: N818  # not an error: the scanner goes on
    """The scanner must continue: ``text`` is the rest, of which the last ``tail`` characters are the source."""

    def __init__(self, text: str, *levels: Level) -> None:
        super().__init__()
        self.text = text
        self.tail = len(text)
        self.levels = [*levels]

    def leave_insert(self, place: Place) -> None:
        """Leave a text that was inserted after a position: the rest of the source follows."""
        rest = place.source[place.end :]
        self.text += rest
        self.tail = len(rest)
        for level in self.levels:
            level.position = place.end


def fill(parts: Parts, run: Run, out: list[str]) -> None:
    """Append the text of all parts to a buffer."""
    for part in parts:
        if isinstance(part, str):
            out.append(part)
        else:
            part.emit(run, out)


def collect(parts: Parts, run: Run, kind: LevelKind, position: int, block: Block | None = None) -> str:
    """Return the text of all parts, which together are a level of the scanner."""
    out: list[str] = []
    try:
        fill(parts, run, out)
    except Takeover as takeover:
        takeover.levels.append(Level(kind, out, position, block))
        raise
    text = joined(out)
    if len(text) > FREE_CHARACTERS:
        run.session.produce(len(text))
    return text


class _TagNode:
    """The content of a tag, and its position."""

    __slots__ = ("parts", "position")

    def __init__(self, parts: Parts, position: int) -> None:
        self.parts = parts
        self.position = position

    def tag(self, run: Run) -> str:
        """Return the text between the braces."""
        return collect(self.parts, run, LevelKind.TAG, self.position)


class HandOver:
    """The end of what could be compiled."""

    __slots__ = ("at", "source")

    def __init__(self, source: str, at: int) -> None:
        self.source = source
        self.at = at

    def emit(self, run: Run, out: list[str]) -> None:
        """Let the scanner continue here."""
        raise Takeover(self.source[self.at :])


class Unclosed:
    """A level that is still open where the compiled part of the text ends."""

    __slots__ = ("block", "kind", "parts", "position")

    def __init__(self, kind: LevelKind, parts: Parts, position: int, block: Block | None) -> None:
        self.kind = kind
        self.parts = parts
        self.position = position
        self.block = block

    def emit(self, run: Run, out: list[str]) -> None:
        """Collect the level for the scanner."""
        out.append(collect(self.parts, run, self.kind, self.position, self.block))


class StaticCall:
    """A function with constant arguments."""

    __slots__ = ("args", "function", "position", "tag")

    def __init__(self, function: CBSFunction, tag: str, args: list[str], position: int) -> None:
        self.function = function
        self.tag = tag
        self.args = args
        self.position = position

    def emit(self, run: Run, out: list[str]) -> None:
        """Call the function."""
        out.append(apply(run, self.function, self.tag, self.args, out, self.position))


class DynamicCall(_TagNode):
    """A function with a known name but unknown arguments."""

    __slots__ = ("function", "separator")

    def __init__(self, function: CBSFunction, separator: str, parts: Parts, position: int) -> None:
        super().__init__(parts, position)
        self.function = function
        self.separator = separator

    def emit(self, run: Run, out: list[str]) -> None:
        """Call the function with its evaluated arguments."""
        tag = self.tag(run)
        _, *args = tag.split(self.separator)
        out.append(apply(run, self.function, tag, args, out, self.position))


class Expression(_TagNode):
    """A calculator tag."""

    __slots__ = ()

    def emit(self, run: Run, out: list[str]) -> None:
        """Calculate."""
        out.append(evaluate_expression(run, self.tag(run), self.position))


class Tag:
    """A tag that is evaluated from its text at run time, because its name is not known before."""

    __slots__ = ("parts", "place")

    def __init__(self, parts: Parts, place: Place) -> None:
        self.parts = parts
        self.place = place

    def emit(self, run: Run, out: list[str]) -> None:
        """Evaluate the tag as the scanner does."""
        place = self.place
        tag = collect(self.parts, run, LevelKind.TAG, place.start)
        if tag.startswith("call::"):
            result = run.call(tag, place.start)
            if result is not None:
                out.append(result)
                return
        if place.level is LevelKind.TAG:
            function = run.session.engine.registry.get(split_tag(tag)[0])
            if function is not None and function.edits:
                # It may change how the tag around it starts, which this tree relies on.
                raise Takeover(place.source[place.inside :], Level(LevelKind.TAG, [tag], place.start))
        out.append(evaluate(run, tag, out, place.start))


class FunctionCall(_TagNode):
    """A call of a ``#func`` function. It is executed even where nothing else is evaluated."""

    __slots__ = ("pure",)

    def __init__(self, parts: Parts, position: int, *, pure: bool) -> None:
        super().__init__(parts, position)
        self.pure = pure

    def emit(self, run: Run, out: list[str]) -> None:
        """Call the function, or keep the tag if there is none with that name."""
        tag = self.tag(run)
        result = run.call(tag, self.position)
        if result is None:
            result = f"{{{{{tag}}}}}" if self.pure else evaluate(run, tag, out, self.position)
        out.append(result)


class Kept(_TagNode):
    """A tag that always stays in the text."""

    __slots__ = ()

    def emit(self, run: Run, out: list[str]) -> None:
        """Put the braces back."""
        out.append(f"{{{{{self.tag(run)}}}}}")


class NoBlock(_TagNode):
    """A tag that looks like the opener of a block but is not."""

    __slots__ = ()

    def emit(self, run: Run, out: list[str]) -> None:
        """Put the braces back, and report it."""
        out.append(run.no_block(self.tag(run), self.position))


class Discarded(_TagNode):
    """A closing tag with content that must be evaluated."""

    __slots__ = ()

    def emit(self, run: Run, out: list[str]) -> None:
        """Evaluate and discard."""
        self.tag(run)


class RawLevel(_TagNode):
    """A block-like tag inside text that is not evaluated, up to its closer."""

    __slots__ = ()

    def emit(self, run: Run, out: list[str]) -> None:
        """Keep what it contains."""
        out.append(collect(self.parts, run, LevelKind.RAW, self.position))


class LegacyBlock(_TagNode):
    """``{# ... #}``."""

    __slots__ = ()

    def emit(self, run: Run, out: list[str]) -> None:
        """Evaluate the block, or keep the text if it is not a block."""
        content = self.tag(run)
        result = legacy_block(content)
        out.append(f"{{#{content}#}}" if result is None else result)


class BlockNode:
    """A block: ``block`` if its kind is known, else the parts of the tag that decides it.

    ``skippable`` means that the scanner would find the same end, without side effects, if the block is false.
    """

    __slots__ = ("block", "body", "opener", "place", "skippable")

    def __init__(
        self, opener: Parts, block: Block | None, body: Parts, place: Place, *, skippable: bool = False
    ) -> None:
        self.opener = opener
        self.block = block
        self.body = body
        self.place = place
        self.skippable = skippable

    def emit(self, run: Run, out: list[str]) -> None:
        """Evaluate the condition, collect the body, and print the result of the block."""
        place = self.place
        block = self.block
        if block is None:
            tag = collect(self.opener, run, LevelKind.TAG, place.start)
            if len(tag) > SHORT_TAG:
                run.session.read(tag)
            block = open_block(tag, run.context)
            assert block is not None, "only tags that always open a block are compiled to one"
            if block.kind == "ignore":
                if self.skippable:
                    return
                raise Takeover(place.source[place.inside :], Level(LevelKind.BLOCK, [], place.start, block))
        body = collect(self.body, run, LevelKind.BLOCK, place.start, block)
        if block.kind == "each":
            insert(expand_each(block, body), place, run, out)
        elif block.kind == "function":
            run.define(block, body)
        else:
            out.append(close_block(block, body))


def insert(text: str, place: Place, run: Run, out: list[str]) -> None:
    """Scan a text that was inserted into the source after a closer."""
    if not text:
        return
    session = run.session
    session.produce(len(text))
    following = place.source[place.end : place.end + 1] or run.following
    seam = needs_joining(text, following)
    program = None if seam else session.engine.compile_insert(text, place.level)
    if program is None or not session.enter(program.depth):
        takeover = Takeover(text)
        takeover.leave_insert(place)
        raise takeover
    session.step(program.size + (len(text) >> INSERTED_STEPS))
    before = run.inside(place.end, following)
    try:
        fill(program.parts, run, out)
    except Takeover as takeover:
        takeover.leave_insert(place)
        raise
    finally:
        run.outside(before)
        session.leave(program.depth)
