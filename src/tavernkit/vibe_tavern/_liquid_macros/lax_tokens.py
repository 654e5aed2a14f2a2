"""Reads the expressions of a template, and rewrites malformed ones."""

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

from tavernkit.vibe_tavern._liquid_macros import lax


def _parse_filtered(env: Environment, source: str, token: Token) -> None:
    FilteredExpression.parse(env, TokenStream(tokenize(source, token)))


def _parse_name(env: Environment, source: str, token: Token) -> None:
    stream = TokenStream(tokenize(source, token))
    parse_identifier(env, stream, allow_trailing_question_mark=False)
    stream.expect_eos()


def _parse_loop(env: Environment, source: str, token: Token) -> None:
    loop = LoopExpression.parse(env, TokenStream(tokenize(source, token)))
    if loop.reversed and not lax.is_reversed(source):
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
    (TOKEN_TAG, "echo"): (_parse_filtered, lax.filtered_source),
    (TOKEN_TAG, "capture"): (_parse_name, lax.name_source),
    (TOKEN_TAG, "case"): (_parse_value, lax.value_source),
    (TOKEN_TAG, "when"): (_parse_values, lax.values_source),
    **{(TOKEN_TAG, name): (_parse_loop, lax.loop_source) for name in ("for", "tablerow")},
    **{(TOKEN_TAG, name): (_parse_condition, lax.condition_source) for name in ("if", "elsif", "unless")},
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
        grammar = (_parse_filtered, lax.filtered_source) if is_output else _GRAMMARS.get((token.kind, token.value))


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
