"""Texts, and regular expressions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tavernkit._text.js_regex import JSMatch, JSRegex, JSRegexSyntaxError
from tavernkit._text.js_values import (
    is_basic,
    join_surrogates,
    js_lower,
    js_upper,
    json_stringify,
    utf16_at,
    utf16_length,
)
from tavernkit.risu_ai._js import INDEX_LIMIT, code_units, exact_index, replace_all, replace_first
from tavernkit.risu_ai._triggers.effects.hosts import raw_name
from tavernkit.risu_ai._triggers.limits import TriggerFailedError
from tavernkit.risu_ai._triggers.program import EffectTable

if TYPE_CHECKING:
    from tavernkit.risu_ai._triggers.program import Effect
    from tavernkit.risu_ai._triggers.run import Run


effects = EffectTable()


@effects.effect("v2GetCharAt")
def get_character(run: Run, effect: Effect) -> None:
    """Read one UTF-16 code unit."""
    text = run.value(effect, "source")
    index = exact_index(run.number(effect, "index"), utf16_length(text))
    run.output(effect, "null" if index is None else utf16_at(text, index))


@effects.effect("v2GetCharCount")
def count_characters(run: Run, effect: Effect) -> None:
    """Count UTF-16 code units."""
    run.output(effect, str(utf16_length(run.value(effect, "source"))))


@effects.effect("v2ToLowerCase")
def to_lower_case(run: Run, effect: Effect) -> None:
    """Make a text lower case."""
    run.output(effect, js_lower(run.value(effect, "source")))


@effects.effect("v2ToUpperCase")
def to_upper_case(run: Run, effect: Effect) -> None:
    """Make a text upper case."""
    run.output(effect, js_upper(run.value(effect, "source")))


@effects.effect("v2SetCharAt")
def set_character(run: Run, effect: Effect) -> None:
    """Replace one character; beyond the end, the text is appended without a gap.

    This effect counts whole characters, although ``v2GetCharAt`` counts code units.
    """
    text, number = join_surrogates(run.value(effect, "source")), run.number(effect, "index")
    value = run.value(effect, "value")
    if 0 <= number < INDEX_LIMIT and number == (index := int(number)):
        text = text[:index] + value + text[index + 1 :]
    run.output(effect, text)


@effects.effect("v2ConcatString")
def concatenate(run: Run, effect: Effect) -> None:
    """Join two texts."""
    first, second = run.value(effect, "source1"), run.value(effect, "source2")
    run.world.budget.size(len(first) + len(second))
    run.output(effect, first + second)


_GROUP = re.compile(r"\$([0-9]+)")
_WHOLE_GROUP = re.compile(r"\$([0-9]+)", re.ASCII)
_LITERAL = re.compile("/([^\n\r\u2028\u2029]+)/([gimuy]*)")


def _format(run: Run, template: str, groups: list[str | None], missing: str) -> str:
    """Fill in groups, then the whole match, then the dollars: each step sees the results of the one before."""

    def group(digits: str) -> str:
        number = int(digits) if len(digits) < 10 else len(groups)
        text = groups[number] if number < len(groups) else None
        return missing if text is None else text

    budget = run.world.budget
    pieces = _GROUP.split(template)  # text and numbers of groups by turns
    pieces[1::2] = [group(digits) for digits in pieces[1::2]]
    budget.count("text", sum(map(len, pieces)), budget.limits.text)
    filled, whole = "".join(pieces), groups[0] or ""
    budget.count("text", filled.count("$&") * len(whole), budget.limits.text)
    return replace_all(filled, "$&", whole, warn=run.world.warn).replace("$$", "$")


@effects.effect("extractRegex", low_level=True)
def extract_v1(run: Run, effect: Effect) -> None:
    """Find a pattern and store the formatted match."""
    fields = effect.fields
    text = run.cbs(fields.get("value"))
    regex = _compile(_raw(fields.get("regex", "")), _raw(fields.get("flags", "")))
    match = regex.search(text, warn=run.world.warn)
    if match is None:  # in V2, the placeholders are removed instead
        raise TriggerFailedError("the pattern is not in the text")
    result = _format(run, _raw(fields.get("result")), [match.text, *match.groups], "undefined")
    run.set(raw_name(effect), result)


def _raw(value: object) -> str:
    if not isinstance(value, str):
        raise TriggerFailedError("a text is missing")
    return value


def _compile(source: str, flags: str) -> JSRegex:
    try:
        return JSRegex.compile(source, flags)
    except JSRegexSyntaxError as error:
        raise TriggerFailedError(str(error), kind="SyntaxError") from error


@effects.effect("v2ExtractRegex")
def extract(run: Run, effect: Effect) -> None:
    """Find a pattern and store the formatted match."""
    value, source = run.value(effect, "value"), run.value(effect, "regex")
    flags, result = run.value(effect, "flags"), run.value(effect, "result")
    match = _compile(source, flags).search(value, warn=run.world.warn)
    groups: list[str | None] = [""] if match is None else [match.text, *match.groups]
    run.output(effect, _format(run, result, groups, ""))


@effects.effect("v2RegexTest")
def test(run: Run, effect: Effect) -> None:
    """Store whether a pattern is in a text."""
    value, source, flags = run.value(effect, "value"), run.value(effect, "regex"), run.value(effect, "flags")
    try:
        found = JSRegex.compile(source, flags).test(value, warn=run.world.warn)
    except JSRegexSyntaxError:
        found = False
    run.output(effect, "1" if found else "0")


@effects.effect("v2ReplaceString")
def replace(run: Run, effect: Effect) -> None:
    """Replace matches, or one group in each of them; an invalid pattern changes nothing."""
    source, pattern = run.value(effect, "source"), run.value(effect, "regex")
    template, replacement = run.value(effect, "result"), run.value(effect, "replacement")
    flags = run.value(effect, "flags")
    written = 0

    def new_text(match: JSMatch) -> str:
        nonlocal written
        text = _replaced(run, match, template, replacement)
        written += len(text)
        run.world.budget.count("text", written, run.world.budget.limits.text)
        return text

    try:
        result = JSRegex.compile(pattern, flags).replace(source, new_text, warn=run.world.warn)
    except JSRegexSyntaxError:
        result = source
    run.output(effect, result)


def _replaced(run: Run, match: JSMatch, template: str, replacement: str) -> str:
    groups: list[str | None] = [match.text, *match.groups]
    if match.named:  # RisuAI then treats the offset as another group
        groups.append(str(match.utf16_start))
    single = _WHOLE_GROUP.fullmatch(template)
    if single is not None:
        number = int(single[1]) if len(single[1]) < 10 else len(groups)
        if number == 0:
            return replacement
        wanted = groups[number] if number < len(groups) else None
        is_zero = (
            match.named and number == len(groups) - 1 and match.utf16_start == 0
        )  # a number, which counts as empty
        if wanted and not is_zero:
            return replace_first(match.text, wanted, replacement, warn=run.world.warn)
    return _format(run, template, groups, "")


@effects.effect("v2SplitString")
def split(run: Run, effect: Effect) -> None:
    """Split a text into a list."""
    source = run.value(effect, "source")
    delimiter = run.cbs(effect.fields.get("delimiter"))
    parts: list[str | None]
    match effect.fields.get("delimiterType"):
        case "regex":
            parts = _split_regex(run, source, delimiter)
        case "var":
            parts = _split_text(source, run.get(delimiter))
        case _:
            parts = _split_text(source, delimiter)
    run.output(effect, json_stringify(parts))


def _split_text(source: str, delimiter: str) -> list[str | None]:
    if delimiter and is_basic(source):
        return [*source.split(delimiter)]
    units = code_units(source)
    return [join_surrogates(part) for part in units.split(code_units(delimiter))] if delimiter else [*units]


def _split_regex(run: Run, source: str, delimiter: str) -> list[str | None]:
    # With other flags than these (`/x/s`), RisuAI takes the slashes as part of the pattern.
    literal = _LITERAL.fullmatch(delimiter)
    pattern, flags = (literal[1], literal[2]) if literal is not None else (delimiter, "")
    try:
        return JSRegex.compile(pattern, flags).split(source, warn=run.world.warn)
    except JSRegexSyntaxError:
        return [source]
