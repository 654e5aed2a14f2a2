"""Blocks: what opens one, the conditions of ``#when::``, and how the body of a block is evaluated."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, NamedTuple, Protocol

from tavernkit._text.js_values import join_surrogates, parse_float, trim, trim_start
from tavernkit._text.traced import join, substitute
from tavernkit.risu_ai._cbs.context import TOGGLE_PREFIX
from tavernkit.risu_ai._cbs.limits import CACHED_RESULTS, MAX_CHARACTERS, SHORT_TAG
from tavernkit.risu_ai._cbs.lists import parse_array, stringify
from tavernkit.risu_ai._js import replace_within
from tavernkit.risu_ai.errors import CBSLimitError

BlockKind = Literal["ignore", "parse", "if_pure", "pure", "pure_display", "escape", "code", "when", "each", "function"]

PURE_KINDS = frozenset[BlockKind]({"ignore", "pure", "pure_display", "escape", "each", "function"})
"""Blocks whose body is collected without being evaluated."""

ELSE_TAG = "{{:else}}"

FIXED_OPENERS: dict[str, BlockKind] = {
    "#pure": "pure",
    "#pure_display": "pure_display",
    "#puredisplay": "pure_display",
    "#code": "code",
    "#escape": "escape",
}
"""Openers that must be written exactly like this."""

OPENER_NAMES = ("#if", "#when", "#each", "#func", *FIXED_OPENERS)


class Block(NamedTuple):
    """An open block. ``detail`` is what its kind needs: the expression of an ``each``, the name of a function."""

    kind: BlockKind
    opener: str
    holds: bool = True
    keep: bool = False
    detail: str = ""

    @property
    def pure(self) -> bool:
        """True if the body is collected without being evaluated."""
        return self.kind in PURE_KINDS


def open_block(tag: str, variables: Variables) -> Block | None:
    """Return the block that a tag opens; None if it opens none."""
    if tag.startswith("#when"):
        return _open_when(tag, variables)
    if tag.startswith("#if"):
        return _open_if(tag)
    if tag.startswith("#each"):
        return _open_each(tag)
    if tag.startswith("#func"):
        # The name may be empty (two spaces); the words after it, meant as parameters, are never used.
        words = tag.split(" ")
        return Block("function", tag, detail=words[1]) if len(words) > 1 else None
    kind = FIXED_OPENERS.get(tag)
    return None if kind is None else Block(kind, tag)


def _second_word(tag: str) -> str:
    # Only the second word counts: `#if 1 and 0` is true, `#if  1` with two spaces is false.
    words = tag.split(" ", 2)
    return words[1] if len(words) > 1 else ""


def _open_if(tag: str) -> Block:
    return _open_short_if(tag) if len(tag) <= SHORT_TAG and type(tag) is str else _open_any_if(tag)


def _open_any_if(tag: str) -> Block:
    if not is_true(_second_word(tag)):
        return Block("ignore", tag)
    # Whatever begins with `#if` is an if: `#iffy 1` as well; in `#if::1` there is no second word, so it is false.
    return Block("if_pure" if tag.startswith("#if_pure") else "parse", tag)


_open_short_if = lru_cache(maxsize=CACHED_RESULTS)(_open_any_if)


def _open_when(tag: str, variables: Variables) -> Block:
    if tag.startswith("#when::"):
        holds, mode = evaluate_when(tag[7:], variables)
        if mode == "legacy":
            return Block("parse" if holds else "ignore", tag)
        return Block("when", tag, holds, mode == "keep")
    # `#whenever` opens a block too, which is always false.
    return Block("when", tag, tag.startswith("#when ") and is_true(_second_word(tag)))


def _open_each(tag: str) -> Block:
    expression = trim(tag[5:])
    keep = expression.startswith("::keep ")
    if keep:
        expression = trim(expression[7:])
    if expression.startswith("as "):
        # An empty list leaves `as name`: without its `as ` one word remains, and the block prints nothing.
        expression = trim(expression[3:])
    return Block("each", tag, keep=keep, detail=expression)


def close_block(block: Block, body: str) -> str:
    """Return what a block prints. Blocks of kind ``each`` and ``function`` print nothing themselves."""
    match block.kind:
        case "when":
            return _when_body(block, body)
        case "parse":
            return _dedented(body)
        case "if_pure":
            return body
        case "pure":
            return trim(body)
        case "pure_display":
            return trim(body).replace("{{", r"\{\{").replace("}}", r"\}\}")
        case "escape":
            return escape_braces(trim(body))
        case "code":
            return _code_body(body)
        case _:
            return ""


def _dedented(body: str) -> str:
    body = trim(body)
    if "\n" not in body:
        return body
    return trim(join("\n", [trim_start(line) for line in body.split("\n")]))


def _when_body(block: Block, body: str) -> str:
    if "\n" not in body:
        # On one line an else may stand anywhere, and nothing is trimmed.
        before, found, after = body.partition(ELSE_TAG)
        return before if block.holds else after if found else ""
    lines = body.split("\n")
    # On several lines an else needs a line of its own; further ones stay in the text.
    other = next((index for index, line in enumerate(lines) if trim(line) == ELSE_TAG), None)
    if not block.holds:
        lines = [] if other is None else lines[other + 1 :]
    elif other is not None:
        lines = lines[:other]
    if not block.keep:
        written = [index for index, line in enumerate(lines) if trim(line)]
        lines = lines[written[0] : written[-1] + 1] if written else []
    return join("\n", lines)


_UNICODE_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_CHARACTER_ESCAPE = re.compile("\\\\([^\n\r\u2028\u2029])")
# `\x` takes no digits and is U+0000; every other character stands for itself.
_CONTROL_CHARACTERS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "v": "\v", "a": "a", "x": "\0"}


def _code_body(body: str) -> str:
    text = trim(body).replace("\n", "").replace("\t", "")
    if "\\" not in text:
        return text
    text = _UNICODE_ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
    text = _CHARACTER_ESCAPE.sub(lambda found: _CONTROL_CHARACTERS.get(found[1], found[1]), text)
    return join_surrogates(text)


def expand_each(block: Block, body: str, *, limit: int = MAX_CHARACTERS) -> str:
    """Return the text that an ``each`` inserts into the source after its closer, to be scanned next."""
    expression = block.detail
    # The last ` as ` counts, even inside the JSON of the list; without one, the name is the last word.
    before, found, name = expression.rpartition(" as ")
    if found:
        name = trim(name)
    else:
        before, found, name = expression.rpartition(" ")
        if not found:  # a single word is neither list nor name: the block prints nothing
            return ""
    template = body if block.keep else _dedented(body)
    slot = f"{{{{slot::{name}}}}}"
    pieces: list[str] = []
    size = 0
    for item in parse_array(before):
        # JavaScript's patterns act in items: `$&` is the slot itself.
        piece = replace_within(limit, template, slot, item if isinstance(item, str) else stringify(item))
        size += max(len(piece), len(template))  # a shrinking template counts as work too
        if size > limit:
            raise CBSLimitError(f"an each makes more than {limit} characters", limit="MAX_CHARACTERS")
        pieces.append(piece)
    inserted = join_surrogates(join("", pieces))
    return inserted if block.keep else trim(inserted)


def legacy_block(content: str) -> str | None:
    """Evaluate ``{# ... #}``; None if it is not a block of that kind."""
    # `if` is the only word it knows, and a missing condition is true.
    logic, found, body = content.partition("\n")
    words = logic.split(" ")
    if not found or words[0] != "if":
        return None
    return "" if len(words) > 1 and words[1] in ("", "0", "-1") else trim(body)


WhenMode = Literal["normal", "keep", "legacy"]


class Variables(Protocol):
    """Variables for conditions."""

    def chat_variable(self, name: str) -> str:
        """Read a chat variable."""
        ...

    def global_variable(self, name: str) -> str:
        """Read a global variable."""
        ...


class NeedsVariables(Exception):  # noqa: N818  # not an error
    """A condition or an expression reads a variable, so it can only be evaluated at run time."""


class _NoVariables:
    """For what may be evaluated when a text is compiled."""

    def chat_variable(self, name: str) -> str:
        """Refuse."""
        raise NeedsVariables(name)

    global_variable = chat_variable


NO_VARIABLES = _NoVariables()


def is_true(word: str | None) -> bool:
    """Return True if a word counts as true in a block."""
    return word in ("1", "true")


def evaluate_when(condition: str, variables: Variables) -> tuple[bool, WhenMode]:
    """Return True if the condition after ``#when::`` holds, and how the body is to be treated.

    RisuAI evaluates from right to left, without precedence, and on words that are split already: ``5::>::3::and::1`` is
    ``5 > (3 and 1)``. An unknown operator (``==``, or one with spaces) is skipped: the word after it decides.
    """
    words = condition.split("::")
    mode: WhenMode = "normal"
    while len(words) > 1:
        right = words.pop()
        name = words.pop()
        if name == "keep" or name == "legacy":
            mode = name  # wherever they stand; of several the leftmost counts, because it is read last
            words.append(right)
        elif name in _UNARY:
            words.append(_bit(_UNARY[name](right, variables)))
        elif name in _BINARY:
            left = words.pop() if words else None
            words.append(_bit(_BINARY[name](left, right, variables)))
        else:
            words.append(_bit(is_true(right)))
    return is_true(words[0]), mode


def _bit(value: bool) -> str:
    return "1" if value else "0"


_Unary = Callable[[str, Variables], bool]
_Binary = Callable[[str | None, str, Variables], bool]

_UNARY: dict[str, _Unary] = {
    "not": lambda right, _: not is_true(right),
    "var": lambda right, variables: is_true(variables.chat_variable(right)),
    "toggle": lambda right, variables: is_true(variables.global_variable(TOGGLE_PREFIX + right)),
}


def _chat_value(name: str | None, variables: Variables) -> str:
    return variables.chat_variable("undefined" if name is None else name)


def _toggle_value(name: str | None, variables: Variables) -> str:
    return variables.global_variable(TOGGLE_PREFIX + ("undefined" if name is None else name))


def _comparison(compare: Callable[[float, float], bool]) -> _Binary:
    def holds(left: str | None, right: str, _: Variables) -> bool:
        return compare(math.nan if left is None else parse_float(left), parse_float(right))

    return holds


_BINARY: dict[str, _Binary] = {
    "and": lambda left, right, _: is_true(left) and is_true(right),
    "or": lambda left, right, _: is_true(left) or is_true(right),
    "is": lambda left, right, _: left == right,
    "isnot": lambda left, right, _: left != right,
    "vis": lambda left, right, variables: _chat_value(left, variables) == right,
    "visnot": lambda left, right, variables: _chat_value(left, variables) != right,
    "tis": lambda left, right, variables: _toggle_value(left, variables) == right,
    "tisnot": lambda left, right, variables: _toggle_value(left, variables) != right,
    ">": _comparison(operator.gt),
    "<": _comparison(operator.lt),
    ">=": _comparison(operator.ge),
    "<=": _comparison(operator.le),
}


_CHARACTERS = str.maketrans(
    {
        "\ue9b8": "{",
        "\ue9b9": "}",
        "\ue9ba": "(",
        "\ue9bb": ")",
        "\ue9bc": "&lt;",
        "\ue9bd": "&gt;",
        "\ue9be": ":",
        "\ue9bf": ";",
    }
)


_BRACES = str.maketrans({"{": "\ue9b8", "}": "\ue9b9", "(": "\ue9ba", ")": "\ue9bb"})


def escape_braces(text: str) -> str:
    """Escape braces and parentheses, so that no macro in the text can act."""
    return text.translate(_BRACES)


def unescape(text: str) -> str:
    """Turn escaped characters back, as RisuAI does before it sends or shows a text (angle brackets as entities)."""
    if text.isascii():
        return text
    return text.translate(_CHARACTERS) if type(text) is str else substitute(_ESCAPED, _written, text)


def _written(found: re.Match[str]) -> str:
    return found[0].translate(_CHARACTERS)


_ESCAPED = re.compile("[\ue9b8-\ue9bf]")
