"""A slow matcher that follows the ECMAScript algorithm step by step, and counts the steps."""

from __future__ import annotations

from collections.abc import Callable

from tavernkit._text.js_regex import nodes as n
from tavernkit._text.js_regex.emit import variants

Captures = tuple[tuple[int, int] | None, ...]
Continue = Callable[[int, Captures], "tuple[int, Captures] | None"]

SPACES = "\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200B)))
WORD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
LINE_ENDS = "\n\r\u2028\u2029"


class TooManySteps(Exception):
    """The matcher was given up."""


class ReferenceMatcher:
    """Finds all matches of a parsed pattern without ``u`` or ``v`` in a text of the basic plane."""

    def __init__(self, pattern: n.Pattern, text: str, limit: int) -> None:
        self.pattern = pattern
        self.text = text
        self.limit = limit
        self.steps = 0

    def find_all(self) -> list[list[tuple[int, int] | None]]:
        found: list[list[tuple[int, int] | None]] = []
        at = 0
        while at <= len(self.text):
            nothing: Captures = (None,) * (self.pattern.group_count + 1)
            result = self._match(self.pattern.root, at, nothing, lambda end, captures: (end, captures), 1)
            if result is None:
                at += 1
                continue
            end, captures = result
            found.append([(at, end), *captures[1:]])
            at = end if end > at else at + 1
        return found

    def _step(self) -> None:
        self.steps += 1
        if self.steps > self.limit:
            raise TooManySteps

    def _match(self, node: n.Node, at: int, captures: Captures, go_on: Continue, way: int):
        match node:
            case n.Char() | n.Dot() | n.CharClass():
                self._step()
                place = at if way > 0 else at - 1
                if 0 <= place < len(self.text) and self._fits(node, self.text[place]):
                    return go_on(at + way, captures)
                return None
            case n.Assertion(kind):
                self._step()
                return go_on(at, captures) if self._holds(kind, at) else None
            case n.Sequence(items):
                return self._sequence(items if way > 0 else items[::-1], at, captures, go_on, way)
            case n.Alternatives(branches):
                for branch in branches:
                    result = self._match(branch, at, captures, go_on, way)
                    if result is not None:
                        return result
                return None
            case n.Group(body, number):
                return self._group(body, number, at, captures, go_on, way)
            case n.Look(body, behind, negative):
                result = self._match(body, at, captures, lambda end, taken: (end, taken), -1 if behind else 1)
                if negative:
                    return go_on(at, captures) if result is None else None
                return None if result is None else go_on(at, result[1])
            case n.BackReference(groups):
                return self._reference(groups, at, captures, go_on, way)
            case n.Repeat():
                return self._repeat(node, node.least, node.most, at, captures, go_on, way)
            case n.SetClass():
                raise AssertionError("sets need the v flag")

    def _sequence(self, items: tuple[n.Node, ...], at: int, captures: Captures, go_on: Continue, way: int):
        if not items:
            return go_on(at, captures)
        first, rest = items[0], items[1:]
        return self._match(first, at, captures, lambda end, taken: self._sequence(rest, end, taken, go_on, way), way)

    def _group(self, body: n.Node, number: int | None, at: int, captures: Captures, go_on: Continue, way: int):
        def close(end: int, taken: Captures):
            if number is None:
                return go_on(end, taken)
            span = (at, end) if way > 0 else (end, at)
            return go_on(end, (*taken[:number], span, *taken[number + 1 :]))

        return self._match(body, at, captures, close, way)

    def _reference(self, groups: tuple[int, ...], at: int, captures: Captures, go_on: Continue, way: int):
        span = next((captures[group] for group in groups if captures[group] is not None), None)
        if span is None:
            return go_on(at, captures)
        wanted = self.text[span[0] : span[1]]
        start = at if way > 0 else at - len(wanted)
        self._step()
        given = self.text[start : start + len(wanted)] if start >= 0 else None
        if given is not None and len(given) == len(wanted) and self._same(wanted, given):
            return go_on(at + way * len(wanted), captures)
        return None

    def _repeat(self, loop: n.Repeat, least: int, most: int, at: int, captures: Captures, go_on: Continue, way: int):
        if most == 0:
            return go_on(at, captures)

        def again(end: int, taken: Captures):
            if least == 0 and end == at:
                return None
            fewer = most if most == n.INFINITE else most - 1
            return self._repeat(loop, max(least - 1, 0), fewer, end, taken, go_on, way)

        inside = set(groups_in(loop.body))
        cleared = tuple(None if index in inside else span for index, span in enumerate(captures))
        if least > 0:
            return self._match(loop.body, at, cleared, again, way)
        if not loop.greedy:
            result = go_on(at, captures)
            return result if result is not None else self._match(loop.body, at, cleared, again, way)
        result = self._match(loop.body, at, cleared, again, way)
        return result if result is not None else go_on(at, captures)

    def _holds(self, kind: str, at: int) -> bool:
        text, lines = self.text, "m" in self.pattern.flags
        if kind == "^":
            return at == 0 or (lines and text[at - 1] in LINE_ENDS)
        if kind == "$":
            return at == len(text) or (lines and text[at] in LINE_ENDS)
        before = at > 0 and text[at - 1] in WORD
        after = at < len(text) and text[at] in WORD
        return (before != after) == (kind == "b")

    def _fits(self, node: n.Char | n.Dot | n.CharClass, character: str) -> bool:
        if isinstance(node, n.Dot):
            return "s" in self.pattern.flags or character not in LINE_ENDS
        codes = variants(ord(character)) if "i" in self.pattern.flags else (ord(character),)
        if isinstance(node, n.Char):
            return node.code in codes
        inside = any(in_item(item, code) for item in node.items for code in codes)
        return inside != node.negated

    def _same(self, left: str, right: str) -> bool:
        if "i" not in self.pattern.flags:
            return left == right
        return all(ord(b) in variants(ord(a)) for a, b in zip(left, right, strict=True))


def in_item(item: n.ClassItem, code: int) -> bool:
    if isinstance(item, tuple):
        return item[0] <= code <= item[1]
    members = {"d": "0123456789", "w": WORD, "s": SPACES}[item.lower()]
    return (chr(code) in members) == item.islower()


def groups_in(node: n.Node) -> list[int]:
    match node:
        case n.Group(body, number):
            return ([] if number is None else [number]) + groups_in(body)
        case n.Look(body) | n.Repeat(body):
            return groups_in(body)
        case n.Sequence(parts) | n.Alternatives(parts):
            return [number for part in parts for number in groups_in(part)]
        case _:
            return []
