"""Conditions of triggers, and the comparisons and searches that effects share with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from tavernkit._text.js_regex import JSRegex
from tavernkit._text.js_values import (
    UNDEFINED,
    JSError,
    js_lower,
    json_parse,
    strict_equals,
    to_number,
    to_string,
    utf16_find,
)
from tavernkit._values import FrozenObject
from tavernkit.errors import Warn
from tavernkit.risu_ai._js import slice_index
from tavernkit.risu_ai._objects import RisuMessage

if TYPE_CHECKING:
    from tavernkit.risu_ai._triggers.run import Run

TRUE_TEXTS = frozenset({"true", "1"})
NEARLY = 0.0001
"""Numbers closer than this are about equal."""


def conditions_hold(run: Run, conditions: Iterable[FrozenObject]) -> bool:
    """Check conditions in order; the first that fails decides."""
    return all(_holds(run, condition) for condition in conditions)


def _holds(run: Run, condition: FrozenObject) -> bool:
    run.world.budget.check_time()
    match condition.get("type"):
        case "exists":
            needle = run.cbs(run.cbs(condition.get("value")))  # twice, as in RisuAI
            depth = to_number(condition.get("depth"))
            found = search_messages(run.messages, needle, condition.get("type2"), depth, run.world.warn)
            return found is not False  # an unknown kind of search passes
        case "var":
            left: object = run.get(to_string(condition.get("var", UNDEFINED)))
        case "value":
            named = condition.get("var")
            left = None if named is None else to_string(named)
        case "chatindex":
            left = str(len(run.messages))
        case _:
            return True
    right = run.cbs(condition.get("value"))
    if not isinstance(left, str):
        return False
    operator = condition.get("operator")
    holds = _V1_OPERATORS.get(operator, _passes) if isinstance(operator, str) else _passes
    return holds(run.cbs(left), right)  # the text of a variable is expanded, too


def _passes(left: str, right: str) -> bool:
    return True


# The comparisons are negations of their opposites: what is not a number passes them all.
_V1_OPERATORS: dict[str, Callable[[str, str], bool]] = {
    "=": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    ">": lambda left, right: not to_number(left) <= to_number(right),
    "<": lambda left, right: not to_number(left) >= to_number(right),
    ">=": lambda left, right: not to_number(left) < to_number(right),
    "<=": lambda left, right: not to_number(left) > to_number(right),
    "null": lambda left, right: left == "null",
    "true": lambda left, right: left in TRUE_TEXTS,
}


def search_messages(
    messages: Sequence[RisuMessage], needle: str, how: object, depth: float, warn: Warn | None
) -> bool | None:
    """Search for a text in the newest messages; None for an unknown kind of search."""
    # A depth of 0 means all messages; a negative one leaves out so many of the first.
    recent = messages[slice_index(0 - depth, len(messages)) :]
    haystack = " ".join(message.data for message in recent)
    match how:
        case "strict":
            return needle in haystack.split(" ")  # line ends and commas stick to words; a needle of two is never found
        case "loose":
            return utf16_find(js_lower(haystack), js_lower(needle)) != -1
        case "regex":
            return JSRegex.compile(needle).test(haystack, warn=warn)
        case _:
            return None


def compare(source: str, condition: object, target: str) -> bool:
    """Compare two texts as ``v2If`` does."""
    operator = _V2_OPERATORS.get(condition) if isinstance(condition, str) else None
    return operator is not None and operator(source, target)


def _equal(source: str, target: str) -> bool:
    left, right = to_number(source), to_number(target)
    if left == left and right == right:
        return left == right  # an empty text is 0
    return source == target


def _contains(json_text: str, item: str) -> bool:
    try:
        value = json_parse(json_text)
    except JSError:
        return False
    if isinstance(value, str):
        return utf16_find(value, item) != -1
    return isinstance(value, list) and any(strict_equals(each, item) for each in value)


def _nearly_equal(source: str, target: str) -> bool:
    left, right = to_number(source), to_number(target)
    if left == left and right == right:
        return abs(left - right) < NEARLY
    return js_lower(source).replace(" ", "") == js_lower(target).replace(" ", "")


def _equivalent(source: str, target: str) -> bool:
    if target == "true":
        return source in TRUE_TEXTS
    if target == "false":
        return source not in TRUE_TEXTS
    return source == target


_V2_OPERATORS: dict[str, Callable[[str, str], bool]] = {
    "=": _equal,
    "!=": lambda source, target: not _equal(source, target),
    ">": lambda source, target: to_number(source) > to_number(target),
    "<": lambda source, target: to_number(source) < to_number(target),
    ">=": lambda source, target: to_number(source) >= to_number(target),
    "<=": lambda source, target: to_number(source) <= to_number(target),
    "∈": lambda source, target: _contains(target, source),
    "∋": _contains,
    "∉": lambda source, target: not _contains(target, source),
    "∌": lambda source, target: not _contains(source, target),
    "≒": _nearly_equal,
    "≡": _equivalent,
}
