"""Reads what is written carelessly the way lax Liquid does: what makes sense counts, the rest is passed over."""

from __future__ import annotations

import re
from collections.abc import Iterator

_QUOTED = r'"[^"]*"|\'[^\']*\''
_FRAGMENT = rf"(?:(?:{_QUOTED}|[^\s,|:\"'])+)"
"""One value as a writer sees it: no blanks and separators outside quotes."""

_OPERAND = rf"(?:(?:{_QUOTED}|[^\s,|:\"'=!<>])+)"
_VALUE = re.compile(_FRAGMENT)
_PIPED = re.compile(rf"(?:{_QUOTED}|[^|])*")
_FILTER = re.compile(r"\w+")
_ARGUMENT = re.compile(rf"[:,]\s*(?P<name>\w+\s*:\s*)?(?P<value>{_FRAGMENT})")
_NAME = re.compile(r"\w[\w\-]*")
_ASSIGNED = re.compile(r"\s*(?P<name>\w[\w\-]*)\s*=(?P<value>.*)", re.DOTALL)
_LITERAL = re.compile(rf"(?:{_QUOTED}|-?[0-9]+(?:\.[0-9]+)?|\([^\s()]+\.\.[^\s()]+\)|true|false|nil|null|empty|blank)")
_STEP = re.compile(r"\[[^\[\]]+\]|\w[\w\-]*\??")
_JOINED = re.compile(rf"(?P<text>{_QUOTED})|\b(?P<word>and|or)\b")
_COMPARISON = re.compile(rf"(?P<left>{_OPERAND})\s*(?P<operator>[=!<>]+|[a-z_]+)?\s*(?P<right>{_OPERAND})?")
_OPERATORS = frozenset(("==", "!=", "<>", "<=", ">=", "<", ">", "contains"))
_NOTHING = "nil"


def filtered_source(text: str) -> str:
    """Rewrite a value with filters: the first value, and each filter with the arguments that follow it."""
    head, *rest = _sections(text)
    first = _VALUE.search(head)
    return " | ".join([_value(first.group()) if first else _NOTHING, *filter(None, map(_filter, rest))])


def assignment_source(text: str) -> str | None:
    """Rewrite ``name = value``; without a name and a ``=`` there is nothing to rewrite."""
    match = _ASSIGNED.fullmatch(text)
    return match and f"{match['name']} = {filtered_source(match['value'])}"


def name_source(text: str) -> str | None:
    """Rewrite a name that is in quotes, or has something behind it."""
    match = _NAME.search(text)
    return match and match.group()


def condition_source(text: str) -> str | None:
    """Rewrite comparisons joined by ``and`` and ``or``; one without a value or a known operator cannot be."""
    written: list[str] = []
    for part, joint in _comparisons(text):
        match = _COMPARISON.search(part)
        if match is None or (match["operator"] or "==") not in _OPERATORS:
            return None
        written.append(_value(match["left"]))
        if match["operator"]:
            written += [match["operator"], _value(match["right"] or _NOTHING)]
        if joint:
            written.append(joint)
    return " ".join(written)


def _sections(text: str) -> list[str]:
    sections: list[str] = []
    position = 0
    while position <= len(text):
        match = _PIPED.match(text, position)
        assert match is not None
        sections.append(match.group())
        position = match.end() + 1
    return sections


def _filter(section: str) -> str:
    name = _FILTER.search(section)
    if name is None:
        return ""
    found = _ARGUMENT.finditer(section, name.end())
    arguments = [f"{each['name'] or ''}{_value(each['value'])}" for each in found]
    return f"{name.group()}: {', '.join(arguments)}" if arguments else name.group()


def _value(fragment: str) -> str:
    if _LITERAL.fullmatch(fragment):
        return fragment
    first, *rest = _STEP.findall(fragment) or [_NOTHING]
    if first.isdecimal():
        return _NOTHING
    return first + "".join(step if step.startswith("[") else f".{step}" for step in rest)


def _comparisons(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    for match in _JOINED.finditer(text):
        if match["word"]:
            yield text[position : match.start()], match["word"]
            position = match.end()
    yield text[position:], ""
