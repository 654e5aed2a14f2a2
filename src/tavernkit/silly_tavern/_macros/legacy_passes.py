"""The passes of the legacy engine, in order, and how they find their calls. Each sees the results of earlier passes.

A finder does what one of SillyTavern's regular expressions does, from left to right, in linear time: a long text
full of unclosed openings must not block a build.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import WHITESPACE, to_string, trim
from tavernkit.silly_tavern._macros import variables
from tavernkit.silly_tavern._macros.builtin import settings, time
from tavernkit.silly_tavern._macros.builtin.card import index_range, last_index, last_swipe_count, last_text
from tavernkit.silly_tavern._macros.builtin.utility import roll_dice, split_commas
from tavernkit.silly_tavern._macros.environment import TEXT_COMPLETION_API, MacroEnvironment
from tavernkit.silly_tavern._macros.moment import format_time
from tavernkit.silly_tavern._macros.seeding import place_draw
from tavernkit.stores._variables import GLOBAL, LOCAL

if TYPE_CHECKING:
    from tavernkit.silly_tavern._macros.legacy_engine import LegacyRun


_LINE_END = re.compile("[\n\r\u2028\u2029]")
_TRIM = re.compile(r"\{\{trim\}\}", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Found:
    """A call: its span and the captured texts."""

    start: int
    end: int
    groups: tuple[str, ...] = ()


Finder: TypeAlias = Callable[[str], Iterator[Found]]
"""Finds all calls of one macro."""


def exactly(text: str, *, ascii_only: bool = True) -> Finder:
    """``{{name}}`` or a marker, in any case."""
    return pattern(re.escape(text), ascii_only=ascii_only)


def pattern(source: str, *, ascii_only: bool = True) -> Finder:
    """A regular expression without backtracking."""
    compiled = re.compile(source, re.IGNORECASE | re.ASCII if ascii_only else re.IGNORECASE)

    def find(text: str) -> Iterator[Found]:
        for match in compiled.finditer(text):
            yield Found(match.start(), match.end(), match.groups())

    return find


def up_to_brace(opening: str, *, may_be_empty: bool = False) -> Finder:
    """An opening, then anything without ``}``, then ``}}``."""
    start_of = re.compile(opening, re.IGNORECASE | re.ASCII).search

    def find(text: str) -> Iterator[Found]:
        at = 0
        while (opened := start_of(text, at)) is not None:
            body = opened.end()
            brace = text.find("}", body)
            if brace < 0:
                return
            # A brace that does not close this call does not close an earlier one either.
            at = brace + 1
            if text.startswith("}}", brace) and (may_be_empty or brace > body):
                at = brace + 2
                yield Found(opened.start(), at, (text[body:brace],))

    return find


def up_to_braces(opening: str, *, in_line: bool, separator: str = "", may_be_empty: bool = False) -> Finder:
    """An opening, then as little as possible (with a separator in it) up to ``}}``."""
    start_of = re.compile(opening, re.IGNORECASE | re.ASCII).search

    def find(text: str) -> Iterator[Found]:
        at, limit = 0, -1 if in_line else len(text)
        while (opened := start_of(text, at)) is not None:
            body = opened.end()
            if limit < body:
                limit = _line_end(text, body)
            middle = text.find(separator, body, limit) if separator else body
            after = middle + len(separator) + (0 if may_be_empty or separator else 1)
            close = text.find("}}", after, limit) if middle >= 0 else -1
            if close < 0:
                # Nothing closes a call in the rest of this line.
                at = limit
                continue
            at = close + 2
            groups = (text[body:middle], text[middle + len(separator) : close]) if separator else (text[body:close],)
            yield Found(opened.start(), at, groups)

    return find


def assignment(opening: str, *, may_be_empty: bool) -> Finder:
    """An opening, a name without colon, ``::``, a value without ``}``, then ``}}``."""
    start_of = re.compile(opening, re.IGNORECASE | re.ASCII).search

    def find(text: str) -> Iterator[Found]:
        at, brace = 0, -1
        while (opened := start_of(text, at)) is not None:
            name = opened.end()
            at = name
            colon = text.find(":", name)
            if colon < 0:
                return
            if colon == name or not text.startswith("::", colon):
                continue
            value = colon + 2
            if brace < value:
                brace = text.find("}", value)
                if brace < 0:
                    return
            if text.startswith("}}", brace) and (may_be_empty or brace > value):
                at = brace + 2
                yield Found(opened.start(), at, (text[name:colon], text[value:brace]))

    return find


def to_last_quote(opening: str) -> Finder:
    """An opening, then as much of the line as possible up to ``"}}``."""
    start_of = re.compile(opening, re.IGNORECASE | re.ASCII).search

    def find(text: str) -> Iterator[Found]:
        at = 0
        while (opened := start_of(text, at)) is not None:
            at = _line_end(text, opened.end())
            close = text.rfind('"}}', opened.end(), at)
            if close >= 0:
                yield Found(opened.start(), close + 3, (text[opened.end() : close],))

    return find


def trims(text: str) -> Iterator[Found]:
    """``{{trim}}`` with the line breaks around it."""
    last = 0
    for match in _TRIM.finditer(text):
        start, end = match.span()
        while start > last and text[start - 1] == "\n":
            start -= 2 if start - 2 >= last and text[start - 2] == "\r" else 1
        while text.startswith(("\n", "\r\n"), end):
            end += 1 if text[end] == "\n" else 2
        yield Found(start, end)
        last = end


def _line_end(text: str, start: int) -> int:
    found = _LINE_END.search(text, start)
    return len(text) if found is None else found.start()


_OPEN = r"\{\{"
_LEGACY_ALIASES = {"instructFirstOutputPrefix": "instructFirstOutput", "instructLastOutputPrefix": "instructLastOutput"}
_DEFAULT_SYSTEM_PROMPT = ("defaultSystemPrompt", "instructSystem", "instructSystemPrompt")


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass: ``needle`` must be in the text (in lower case) for it to find anything."""

    needle: str
    find: Finder
    value: Callable[[LegacyRun, Sequence[str]], object]


def _named(name: str, value: Callable[[MacroEnvironment], object]) -> Pass:
    return Pass(f"{{{{{name.lower()}}}}}", exactly(f"{{{{{name}}}}}"), lambda run, _groups: value(run.environment))


def _roll(run: LegacyRun, groups: Sequence[str]) -> object:
    formula = trim(groups[0])
    if formula.isascii() and formula.isdigit():
        formula = f"1d{formula}"
    total = roll_dice(run, formula)
    return "" if total is None else total


def _variable_passes(word: str, scope: str) -> Sequence[Pass]:
    def store(run: LegacyRun, groups: Sequence[str]) -> str:
        # The name is trimmed, the value is not.
        variables.write(run.variables, trim(groups[0]), groups[1], scope)
        return ""

    def add(run: LegacyRun, groups: Sequence[str]) -> str:
        variables.add(run.variables, trim(groups[0]), groups[1], scope)
        return ""

    def increment(run: LegacyRun, groups: Sequence[str]) -> str:
        return to_string(variables.add(run.variables, trim(groups[0]), 1.0, scope))

    def decrement(run: LegacyRun, groups: Sequence[str]) -> str:
        return to_string(variables.add(run.variables, trim(groups[0]), -1.0, scope))

    # Here and in the two above, values are written as JavaScript does, not as JSON: a list as `a,b`.
    def read(run: LegacyRun, groups: Sequence[str]) -> str:
        return to_string(variables.read(run.variables, trim(groups[0]), scope))

    return (
        Pass(f"{{{{set{word}::", assignment(f"{_OPEN}set{word}::", may_be_empty=True), store),
        Pass(f"{{{{add{word}::", assignment(f"{_OPEN}add{word}::", may_be_empty=False), add),
        Pass(f"{{{{inc{word}::", up_to_brace(f"{_OPEN}inc{word}::"), increment),
        Pass(f"{{{{dec{word}::", up_to_brace(f"{_OPEN}dec{word}::"), decrement),
        Pass(f"{{{{get{word}::", up_to_brace(f"{_OPEN}get{word}::"), read),
    )


def _instruct_passes() -> Sequence[Pass]:
    def sequence(fields: tuple[str, ...]) -> Callable[[MacroEnvironment], str]:
        return lambda environment: settings.sequence(environment.instruct, fields)

    found: list[Pass] = []
    for name, (aliases, fields) in settings.SEQUENCES.items():
        names = (name, *(_LEGACY_ALIASES.get(alias, alias) for alias in aliases))
        found += [_named(each, sequence(fields)) for each in names]
    found += [_named(name, settings.default_system_prompt) for name in _DEFAULT_SYSTEM_PROMPT]
    return (
        *found,
        Pass("{{systemprompt}}", exactly("{{systemPrompt}}"), _system_prompt),
        _named("chatSeparator", lambda environment: environment.context.example_separator),
        _named("chatStart", lambda environment: environment.context.chat_start),
    )


def _system_prompt(run: LegacyRun, _groups: Sequence[str]) -> str:
    prompt = run.environment.system_prompt
    return (run.cards.system_prompt() or prompt.content) if prompt.enabled else ""


def _current_swipe(environment: MacroEnvironment) -> object:
    last = environment.chat[-1].swipe_id if environment.chat else None
    # SillyTavern adds 1 to nothing.
    return "NaN" if last is None else last + 1


def _last_message(environment: MacroEnvironment) -> object:
    index = last_index(environment)
    return None if index is None else environment.chat[index].mes


def _now_in(form: str) -> Callable[[MacroEnvironment], str]:
    return lambda environment: format_time(environment.now(), form)


def _formatted(run: LegacyRun, groups: Sequence[str]) -> str:
    return format_time(run.environment.now(), groups[0])


def _ban(run: LegacyRun, groups: Sequence[str]) -> str:
    # The pattern is greedy: of two calls in a line, the text between them is part of the word.
    if run.environment.main_api == TEXT_COMPLETION_API:
        run.environment.memory.banned_words.append(groups[0])
    return ""


def _choices(body: str) -> list[str]:
    # The pattern matches one or two colons; in `::` alone, the second one is the list.
    if body.startswith(":") and len(body) > 1:
        body = body[1:]
    # Items between `::` keep their spaces, those between commas do not.
    return body.split("::") if "::" in body else split_commas(body)


def _random(run: LegacyRun, groups: Sequence[str]) -> str:
    choices = _choices(groups[0])
    return choices[int(run.environment.random() * len(choices))]


def _pick(run: LegacyRun, groups: Sequence[str]) -> str:
    choices = _choices(groups[0])
    place = f"{to_string(run.chat_hash)}-{run.text_hash}-{run.utf16_offset}"
    # SillyTavern seeds this generator with a number here; its digits are mixed in, followed by a zero.
    return choices[int(place_draw(place, "\x00") * len(choices))]


MARKERS: Sequence[tuple[Finder, str]] = (
    (exactly("<USER>"), "user"),
    (exactly("<BOT>"), "char"),
    (exactly("<CHAR>"), "char"),
    (exactly("<CHARIFNOTGROUP>"), "group"),
    (exactly("<GROUP>"), "group"),
)
"""The markers of old cards and their environment keys."""

BEFORE_ENVIRONMENT: Sequence[Pass] = (
    # One space or colon: in `{{roll::1d6}}` the second colon belongs to the formula, which is then invalid.
    Pass("{{roll", up_to_brace(rf"{_OPEN}roll[ :]"), _roll),
    *_instruct_passes(),
    *_variable_passes("var", LOCAL),
    *_variable_passes("globalvar", GLOBAL),
    _named("newline", lambda _environment: "\n"),
    Pass("{{trim}}", trims, lambda _run, _groups: ""),
    _named("noop", lambda _environment: ""),
    _named("input", lambda environment: environment.input),
)
"""The passes before the names, the card and the macros of callers and extensions."""

AFTER_ENVIRONMENT: Sequence[Pass] = (
    *(
        _named(name, lambda environment: environment.max_context - environment.max_response)
        for name in ("maxPrompt", "maxPromptTokens")
    ),
    *(_named(name, lambda environment: environment.max_context) for name in ("maxContext", "maxContextTokens")),
    *(_named(name, lambda environment: environment.max_response) for name in ("maxResponse", "maxResponseTokens")),
    _named("lastMessage", _last_message),
    _named("lastMessageId", last_index),
    _named("lastUserMessage", lambda environment: last_text(environment, by_user=True)),
    _named("lastCharMessage", lambda environment: last_text(environment, by_user=False)),
    _named("firstIncludedMessageId", lambda environment: environment.first_included_message_id),
    _named("firstDisplayedMessageId", lambda environment: environment.first_displayed_message_id),
    _named("lastSwipeId", last_swipe_count),
    _named("currentSwipeId", _current_swipe),
    _named("allChatRange", index_range),
    # One colon: `{{reverse::ab}}` gives `ba:`.
    Pass("{{reverse:", up_to_braces(f"{_OPEN}reverse:", in_line=True), lambda _run, groups: groups[0][::-1]),
    Pass("{{//", up_to_braces(f"{_OPEN}//", in_line=False, may_be_empty=True), lambda _run, _groups: ""),
    *(_named(name, _now_in(form)) for name, form in time.FORMATS.items()),
    Pass("{{datetimeformat ", up_to_brace(f"{_OPEN}datetimeformat +", may_be_empty=True), _formatted),
    _named("idle_duration", time.idle_duration),
    Pass(
        "{{time_utc",  # works in any case here
        pattern(rf"{_OPEN}time_UTC([+-][0-9]+)\}}\}}"),
        lambda run, groups: time.time_at_offset(run.environment, groups[0]),
    ),
    Pass(
        "{{outlet::",
        up_to_braces(f"{_OPEN}outlet::", in_line=True),
        lambda run, groups: run.environment.outlets.get(trim(groups[0]), ""),
    ),
    Pass(
        "{{timediff::",
        up_to_braces(f"{_OPEN}timeDiff::", in_line=True, separator="::"),
        lambda run, groups: time.time_difference(run.environment, groups[0], groups[1]),
    ),
    Pass('{{banned "', to_last_quote(f'{_OPEN}banned "'), _ban),
    Pass("{{random", up_to_brace(rf"{_OPEN}random[{WHITESPACE}]?:"), _random),
    Pass("{{pick", up_to_brace(rf"{_OPEN}pick[{WHITESPACE}]?:"), _pick),
)
"""The passes after them."""
