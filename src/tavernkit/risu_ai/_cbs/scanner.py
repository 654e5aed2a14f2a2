"""RisuAI's scanner, and how it evaluates a tag.

It makes one pass over the text with a stack of buffers, and can take over in the middle of a text.
"""

from __future__ import annotations

from enum import Enum

from tavernkit._text.js_values import to_string
from tavernkit._text.traced import expanded, plain, substitute
from tavernkit._values import Json, is_object
from tavernkit.risu_ai._cbs.blocks import Block, close_block, expand_each, legacy_block, open_block
from tavernkit.risu_ai._cbs.calculator import calculate
from tavernkit.risu_ai._cbs.limits import FREE_CHARACTERS, LEVEL_SLOTS, SHORT_TAG, FunctionFailure, ParseFailure
from tavernkit.risu_ai._cbs.registry import CBSCall, CBSFunction, normalize
from tavernkit.risu_ai._cbs.run import Run
from tavernkit.risu_ai._cbs.source import CLOSE, OPENER, OPENERS, TOKEN, joined, needs_joining


class LevelKind(Enum):
    """What a buffer collects."""

    ROOT = "root"
    TAG = "tag"
    BLOCK = "block"
    RAW = "raw"
    NONE = "none"


class Level:
    """A buffer of the stack: what it collects so far, and where it was opened."""

    __slots__ = ("block", "buffer", "kind", "position")

    def __init__(self, kind: LevelKind, buffer: list[str], position: int, block: Block | None = None) -> None:
        self.kind = kind
        self.buffer = buffer
        self.position = position
        self.block = block

    @property
    def pure(self) -> bool:
        """True if the level keeps tags from being evaluated."""
        return self.block is not None and self.block.pure


_TAG, _NONE = LevelKind.TAG, LevelKind.NONE  # looked up at every token


class Scanner:
    """Scans the rest of a text, given the levels that are open.

    ``tail`` is how much of the end of the text is the end of the source, for positions: texts inserted by ``each`` come
    before it.
    """

    def __init__(self, run: Run, levels: list[Level], text: str, *, source_length: int, tail: int) -> None:
        self._run = run
        self._levels = levels
        self._text = text
        self._at: int = 0
        self._waiting: list[tuple[str, int]] = []  # texts into which the current one was inserted, and where
        self._pure = sum(level.pure for level in levels)
        self._source_length = source_length
        self._tail = tail

    def scan(self) -> str:
        """Return the text of all levels when the end is reached."""
        levels, search = self._levels, TOKEN.search
        while True:
            while found := search(self._text, self._at):
                start, end = found.span()
                top = levels[-1]
                if start > self._at:
                    top.buffer.append(self._text[self._at : start])
                self._at = end
                self._take(self._text[start:end], top, start)
                if levels[-1].kind is _NONE:
                    return self._run_out()
            self._levels[-1].buffer.append(self._text[self._at :])
            if not self._waiting:
                return self._unwind()
            self._text, self._at = self._waiting.pop()

    def _take(self, token: str, top: Level, start: int) -> None:
        if token in OPENERS:
            self._push(_TAG, self._position(start))
        elif top.kind is not _TAG:
            top.buffer.append(token)
        elif token == CLOSE:
            self._close_tag(self._pop(), top.position)
        else:
            content = self._pop()
            result = legacy_block(content)
            self._append("{#" + content + "#}" if result is None else result)

    def _run_out(self) -> str:
        """Scan the rest as RisuAI does beyond its nesting limit: nothing closes any more, and openers only open."""
        for text, at in ((self._text, self._at), *reversed(self._waiting)):
            self._append(substitute(OPENER, "<", text[at:]))
        return self._unwind()

    def _position(self, at: int) -> int:
        text, at = self._waiting[0] if self._waiting else (self._text, at)
        return self._source_length - min(len(text) - at, self._tail)

    def _append(self, text: str) -> None:
        self._levels[-1].buffer.append(text)

    def _push(self, kind: LevelKind, position: int, block: Block | None = None) -> None:
        if len(self._levels) + 1 >= LEVEL_SLOTS:
            kind = _NONE
        level = Level(kind, [], position, block)
        self._levels.append(level)
        if block is not None:
            self._pure += level.pure

    def _pop(self) -> str:
        text = joined(self._levels.pop().buffer)
        if len(text) > FREE_CHARACTERS:
            self._run.session.produce(len(text))
        return text

    def _close_tag(self, tag: str, position: int) -> None:
        self._run.session.step(1)
        first = tag[:1]
        if first == "#" or first == ":":
            self._open(tag, position)
        # Any `/tag` closes the innermost block, whatever its name. Comments (`//`) close nothing, and stay in the text.
        elif first != "/" or tag[1:2] == "/" or not self._close_level(tag):
            self._append(self._evaluate(tag, position))

    def _open(self, tag: str, position: int) -> None:
        if self._pure:
            # `:else` opens a level here, too: then the next closer closes that one, and the block stays open.
            self._append("{{" + tag + "}}")
            self._push(LevelKind.RAW, position)
            return
        if len(tag) > SHORT_TAG:
            self._run.session.read(tag)
        block = open_block(tag, self._run.context)
        if block is None:
            self._append(self._run.no_block(tag, position))
        else:
            self._push(LevelKind.BLOCK, position, block)

    def _close_level(self, tag: str) -> bool:
        level = self._levels[-1]
        if level.kind is LevelKind.RAW:
            self._append(self._pop() + "{{" + tag + "}}")
            return True
        if level.kind is not LevelKind.BLOCK or level.block is None:
            return False
        self._pure -= level.pure
        body = self._pop()
        if level.block.kind == "each":
            self._insert(expand_each(level.block, body))
        elif level.block.kind == "function":
            self._run.define(level.block, body)
        else:
            self._append(close_block(level.block, body))
        return True

    def _insert(self, text: str) -> None:
        self._run.session.produce(len(text))
        while self._at == len(self._text) and self._waiting:
            self._text, self._at = self._waiting.pop()
        if not needs_joining(text, self._text[self._at : self._at + 1]):
            self._waiting.append((self._text, self._at))
            self._text = text
        else:
            rest = self._text[self._at :]
            self._run.session.produce(len(rest))
            if not self._waiting:
                self._tail = min(self._tail, len(rest))
            self._text = text + rest
        self._at = 0

    def _evaluate(self, tag: str, position: int) -> str:
        if tag.startswith("call::"):
            # Calls run even where nothing else is evaluated, such as in a false `#if`.
            result = self._run.call(tag, position)
            if result is not None:
                return result
        if self._pure:
            return "{{" + tag + "}}"
        result = evaluate(self._run, tag, self._levels[-1].buffer, position)
        if type(self._run.text) is str:
            return result
        written = "{{" + tag + "}}"
        return written if result == written else expanded(result, plain(split_tag(tag)[0]), written)

    def _unwind(self) -> str:
        texts: list[str] = []
        for level in self._levels:
            if level.kind is LevelKind.TAG:
                texts.append("{{")
            elif level.kind is not LevelKind.ROOT:
                # RisuAI prints this instead of the opener of an unclosed block
                texts.append("<")
            texts += level.buffer
        if len(self._levels) > 1:
            level = self._levels[1]
            self._run.unclosed(level.block.opener if level.block else None, level.position)
        return joined(texts)


CALCULATOR = "? "
"""The prefix of calculator tags."""

OTHER_STAGES = frozenset(
    {
        *("asset", "emotion", "audio", "bg", "bgm", "video", "videoimg", "image", "img", "path", "raw", "source"),
        *("inlay", "inlayed", "inlayeddata", "assetprompt", "slot", "position", "arg", "original", "?"),
    }
)
"""Names that other stages of RisuAI handle: they stay in the text without a warning."""


def split_tag(tag: str) -> tuple[str, list[str]]:
    """Split a tag into its name and its arguments, at ``::`` or, in the old spelling, at every ``:``."""
    at = tag.find(":")
    name, *args = tag.split("::" if tag[at + 1 : at + 2] == ":" else ":") if at >= 0 else [tag]
    return name, args


def evaluate(run: Run, tag: str, buffer: list[str], position: int) -> str:
    """Return what a tag prints; ``buffer`` is the text before it."""
    if tag.startswith(CALCULATOR):
        return evaluate_expression(run, tag, position)
    name, args = split_tag(tag)
    function = run.session.engine.registry.get(name)
    if function is None:
        return keep_unknown(run, tag, name, position)
    return apply(run, function, tag, args, buffer, position)


def evaluate_expression(run: Run, tag: str, position: int) -> str:
    """Return the result of a calculator tag."""
    if len(tag) > SHORT_TAG:
        run.session.read(tag)
    try:
        return calculate(tag[2:], run.context)
    except FunctionFailure as failure:
        return run.keep(tag, str(failure), position)


def is_for_other_stages(tag: str, name: str) -> bool:
    """Return True if a tag is a comment, or one that other stages of RisuAI replace."""
    return tag.startswith("//") or normalize(name) in OTHER_STAGES


def keep_unknown(run: Run, tag: str, name: str, position: int) -> str:
    """Keep a tag with an unknown name; comments and tags of other stages are kept without a warning."""
    if is_for_other_stages(tag, name):
        return "{{" + tag + "}}"
    if tag.startswith("/"):
        return run.keep(tag, "it closes a block, but none is open", position)
    return run.keep(tag, f"there is no function {name!r}", position)


def apply(run: Run, function: CBSFunction, tag: str, args: list[str], buffer: list[str], position: int) -> str:
    """Call a function and return what it prints."""
    if len(tag) > SHORT_TAG:
        run.session.read(tag)
    try:
        result = function.handler(CBSCall(tag, args, run, buffer, position))
    except FunctionFailure as failure:
        return run.keep(tag, str(failure), position)
    if isinstance(result, str):
        if len(result) > FREE_CHARACTERS:
            run.session.produce(len(result))
        return result
    if not result and not isinstance(result, (list, dict)):  # in JavaScript, empty ones are truthy
        return "{{" + tag + "}}"
    return _json_result(run, result)


def _json_result(run: Run, result: Json) -> str:
    """Print a result that is not text: RisuAI treats it as a pair of a text and new temp variables."""
    variables = result.get("var") if is_object(result) else None
    if not is_object(result) or variables is None:
        raise ParseFailure("a tag ended on a value that is not text, which breaks the whole text in RisuAI")
    run.temp.replace(variables)
    run.temp.check_return()
    return to_string(result["text"]) if "text" in result else "undefined"
