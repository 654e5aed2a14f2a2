"""Reads malformed expressions like lax Liquid: valid parts are used, the rest is skipped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from liquid import Environment, Token, TokenStream
from liquid.builtin.expressions import (
    BooleanExpression,
    FilteredExpression,
    LoopExpression,
    parse_identifier,
    parse_primitive,
    tokenize,
)
from liquid.exceptions import LiquidSyntaxError
from liquid.token import TOKEN_COMMA, TOKEN_CONTENT, TOKEN_EXPRESSION, TOKEN_OR, TOKEN_OUTPUT, TOKEN_TAG

_QUOTED = r'"[^"]*"|\'[^\']*\''
# ``|(?!)``: before Python 3.11.5, the text of an iteration that fails halfway counts as matched otherwise.
_FRAGMENT = rf"(?:(?:{_QUOTED}|[^\s,|:\"']|(?!))++)"
"""One value: no white space or separators outside quotes."""

_OPERAND = rf"(?:(?:{_QUOTED}|[^\s,|:\"'=!<>]|(?!))++)"
_VALUE = re.compile(_FRAGMENT)
_PIPED = re.compile(rf"(?:{_QUOTED}|[^|])*+")
_FILTER = re.compile(r"\w+")
_ARGUMENT = re.compile(rf"[:,]\s*(?:(?P<name>[A-Za-z_]\w*)\s*:\s*)?(?P<value>{_FRAGMENT})")
_NAME = re.compile(r"\w[\w\-]*")
_LITERAL = re.compile(rf"(?:{_QUOTED}|-?[0-9]+(?:\.[0-9]+)?|\([^\s()]+\.\.[^\s()]+\)|true|false|nil|null|empty|blank)")
_STEP = re.compile(r"\[[^\[\]]+\]|[\w\-]+\??")
_INDEX = re.compile(rf"{_QUOTED}|-?[0-9]+")
_PLAIN_NAME = re.compile(
    r"(?!(?:and|as|blank|cols|contains|continue|else|empty|false|for|if|in|limit|nil|not|null|offset|or|required|reversed"
    r"|true|with)\Z)[A-Za-z_][\w\-]*\??"
)
"""A name that is not a keyword."""

_LOOP = re.compile(rf"\s*(?P<name>[\w\-]+)\s+in\s+(?P<value>{_FRAGMENT})\s*(?P<reversed>reversed\b)?")
_ATTRIBUTE = re.compile(rf"\b(?P<name>limit|offset|cols)\s*:\s*(?P<value>{_FRAGMENT})")
_FIRST_VALUE = re.compile(rf"\s*({_FRAGMENT})")
_NEXT_VALUE = re.compile(rf"(?:\s+or\s+|\s*,\s*)({_FRAGMENT})")
_JOINED = re.compile(rf"(?P<text>{_QUOTED})|(?<!\S)(?P<word>and|or)(?!\S)")
_COMPARISON = re.compile(rf"(?P<left>{_OPERAND})\s*(?P<operator>[=!<>]+|[a-z_]+)?\s*(?P<right>{_OPERAND})?")
_OPERATORS = frozenset(("==", "!=", "<>", "<=", ">=", "<", ">", "contains"))
UNKNOWN_OPERATOR = "Unknown operator "
_NOTHING = "nil"
_EMPTINESS = frozenset(("empty", "blank"))


def filtered_source(text: str) -> str:
    """Rewrite a value with filters: the first value, and each filter with the arguments that follow it."""
    head, *rest = _sections(text)
    first = _VALUE.search(head)
    return " | ".join([_value(first.group()) if first else _NOTHING, *filter(None, map(_filter, rest))])


def value_source(text: str) -> str | None:
    """Rewrite one value, ignoring anything after it; None if there is no value."""
    match = _VALUE.search(text)
    return match and _value(match.group())


def values_source(text: str) -> str | None:
    """Rewrite values separated by commas or ``or``; the rest is skipped."""
    written: list[str] = []
    match = _FIRST_VALUE.match(text)
    while match:
        written.append(_value(match.group(1)))
        match = _NEXT_VALUE.match(text, match.end())
    return ", ".join(written) or None


def loop_source(text: str) -> str | None:
    """Rewrite ``name in values`` and the known loop options; ``reversed`` comes right after the values."""
    match = _LOOP.match(text)
    if match is None:
        return None
    known = [f"{each['name']}: {_value(each['value'])}" for each in _ATTRIBUTE.finditer(text, match.end())]
    return " ".join(filter(None, (match["name"], "in", _value(match["value"]), match["reversed"], *known)))


def is_reversed(text: str) -> bool:
    """Return True if a loop runs backwards."""
    match = _LOOP.match(text)
    return match is not None and match["reversed"] is not None


def name_source(text: str) -> str | None:
    """Rewrite a name that is quoted or followed by other text."""
    match = _NAME.search(text)
    return match and match.group()


def condition_source(text: str) -> str | None:
    """Rewrite comparisons joined by ``and`` and ``or``; None if a value is missing.

    A comparison with an unknown operator becomes a name that starts with ``UNKNOWN_OPERATOR``, which is an error only
    when it is evaluated.
    """
    written: list[str] = []
    for part, joint in _comparisons(text):
        match = _COMPARISON.search(part)
        if match is None:
            return None
        operator = match["operator"]
        if operator and operator not in _OPERATORS:
            written.append(f'["{UNKNOWN_OPERATOR}{operator}"]')
        else:
            written.append(_value(match["left"]))
            written += [operator, _value(match["right"] or _NOTHING)] if operator else []
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
    arguments = [_argument(each) for each in found]
    written = name.group() if _PLAIN_NAME.fullmatch(name.group()) else f"_{name.group()}"
    return f"{written}: {', '.join(arguments)}" if arguments else written


def _value(fragment: str) -> str:
    if _LITERAL.fullmatch(fragment):
        return fragment
    steps = _STEP.findall(fragment)
    if not steps or steps[0].strip("[] -").isdecimal():
        return _NOTHING
    first, *rest = steps
    return "".join((first if _PLAIN_NAME.fullmatch(first) else _step(first), *map(_step, rest)))


def _argument(match: re.Match[str]) -> str:
    """Write an argument; paths that start with brackets and ``empty`` or ``blank`` are not allowed."""
    written = _value(match["value"])
    if written in _EMPTINESS:
        written = '""'
    name = match["name"]
    named = name is not None and _PLAIN_NAME.fullmatch(name)
    return f"{f'{name}: ' if named else ''}{_NOTHING if written.startswith('[') else written}"


def _step(step: str) -> str:
    """Write one step of a path in brackets and quotes, so that it may be any word, even a keyword."""
    inner = step[1:-1].strip() if step.startswith("[") else f'"{step}"'
    return f"[{inner}]" if _INDEX.fullmatch(inner) or _PLAIN_NAME.fullmatch(inner) else '[""]'


def _comparisons(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    for match in _JOINED.finditer(text):
        if match["word"]:
            yield text[position : match.start()], match["word"]
            position = match.end()
    yield text[position:], ""


def _parse_filtered(env: Environment, source: str, token: Token) -> None:
    FilteredExpression.parse(env, TokenStream(tokenize(source, token)))


def _parse_name(env: Environment, source: str, token: Token) -> None:
    stream = TokenStream(tokenize(source, token))
    parse_identifier(env, stream, allow_trailing_question_mark=False)
    stream.expect_eos()


def _parse_loop(env: Environment, source: str, token: Token) -> None:
    loop = LoopExpression.parse(env, TokenStream(tokenize(source, token)))
    if loop.reversed and not is_reversed(source):
        raise LiquidSyntaxError("reversed stands next to the values", token=token)


def _parse_condition(env: Environment, source: str, token: Token) -> None:
    BooleanExpression.parse(env, TokenStream(tokenize(source, token)))


def _parse_value(env: Environment, source: str, token: Token) -> None:
    stream = TokenStream(tokenize(source, token))
    parse_primitive(env, stream)
    stream.expect_eos()


def _parse_values(env: Environment, source: str, token: Token) -> None:
    stream = TokenStream(tokenize(source, token))
    parse_primitive(env, stream)
    while stream.current.kind in (TOKEN_COMMA, TOKEN_OR):
        next(stream)
        parse_primitive(env, stream)
    stream.expect_eos()


_RAW = re.compile(r"\{%-?\s*raw\s*(?P<opening>-?)%\}.*?\{%-?\s*endraw\s*(?P<closing>-?)%\}", re.DOTALL)
_BLANKS = re.compile(r"\s+")
_TRIMS_BEFORE = re.compile(r"\s*\{[{%]-")
_Parse: TypeAlias = Callable[[Environment, str, Token], None]
_Rewrite: TypeAlias = Callable[[str], str | None]
_Grammar: TypeAlias = tuple[_Parse, _Rewrite]

_GRAMMARS: Mapping[tuple[str, str], _Grammar] = {
    (TOKEN_TAG, "echo"): (_parse_filtered, filtered_source),
    (TOKEN_TAG, "capture"): (_parse_name, name_source),
    (TOKEN_TAG, "case"): (_parse_value, value_source),
    (TOKEN_TAG, "when"): (_parse_values, values_source),
    **{(TOKEN_TAG, name): (_parse_loop, loop_source) for name in ("for", "tablerow")},
    **{(TOKEN_TAG, name): (_parse_condition, condition_source) for name in ("if", "elsif", "unless")},
}
"""For each tag, how its expression is parsed, and how malformed ones are rewritten."""


def lax_tokens(env: Environment, tokens: Iterator[Token]) -> Iterator[Token]:
    """Yield the tokens of a template; malformed expressions are rewritten or left out."""
    grammar: _Grammar | None = None
    last: Token | None = None
    for token in _trimmed_after_raw(tokens):
        if (
            token.kind == TOKEN_EXPRESSION
            and last is not None
            and last.kind == TOKEN_TAG
            and _takes_nothing(last.value)
        ):
            continue
        last = token
        yield token if grammar is None or token.kind != TOKEN_EXPRESSION else _lax_token(env, token, *grammar)
        is_output = token.kind == TOKEN_OUTPUT
        grammar = (_parse_filtered, filtered_source) if is_output else _GRAMMARS.get((token.kind, token.value))


def _trimmed_after_raw(tokens: Iterator[Token]) -> Iterator[Token]:
    """Trim the text after a raw block if its end tag says so; the engine looks at its start tag."""
    raw: re.Match[str] | None = None
    for token in tokens:
        is_text = token.kind == TOKEN_CONTENT
        found = _RAW.match(token.source, token.start_index) if is_text else None
        blanks = _blanks_behind(raw)
        if raw is not None and is_text and found is None:
            yield token._replace(value=blanks + token.value.lstrip())
        else:
            yield from _text(blanks, token.source)
            yield token
        raw = found if found and found["opening"] != found["closing"] else None
    if raw is not None:
        yield from _text(_blanks_behind(raw), raw.string)


def _blanks_behind(raw: re.Match[str] | None) -> str:
    if raw is None or raw["closing"] or _TRIMS_BEFORE.match(raw.string, raw.end()):
        return ""
    match = _BLANKS.match(raw.string, raw.end())
    return match.group() if match else ""


def _text(value: str, source: str) -> Iterator[Token]:
    if value:
        yield Token(TOKEN_CONTENT, value, 0, source)


def _takes_nothing(tag: str) -> bool:
    return tag == "else" or tag.startswith("end")


def _lax_token(env: Environment, token: Token, parse: _Parse, rewrite: _Rewrite) -> Token:
    if not token.value.strip():
        return token
    if _can_parse(env, token.value, token, parse):
        return token
    source = rewrite(token.value)
    return token if source is None or not _can_parse(env, source, token, parse) else token._replace(value=source)


def _can_parse(env: Environment, source: str, token: Token, parse: _Parse) -> bool:
    try:
        parse(env, source, token)
    except LiquidSyntaxError:
        return False
    return True
