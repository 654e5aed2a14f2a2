"""The tokens of a macro text.

A stack of modes drives the lexer; in each mode the first rule that matches wins. Runs of words and other characters
inside an argument or a shorthand value are one token here: no rule of the grammar distinguishes them, except that error
recovery drops exactly one of them (``is_single_token()``).
"""

from __future__ import annotations

import re
from typing import Final

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import WHITESPACE
from tavernkit.silly_tavern._macros.limits import MAX_TOKENS

# Kinds of tokens are bits, so that a set of kinds is an integer too.
END: Final = 1
TEXT: Final = 2
BRACE: Final = 4
OPEN: Final = 8
CLOSE: Final = 16
COMMENT: Final = 32
PREFIX: Final = 64
FLAG: Final = 128
NAME: Final = 256
DOUBLE_COLON: Final = 512
COLON: Final = 1024
PUNCTUATION: Final = 2048
RUN: Final = 4096
VARIABLE: Final = 8192
STEP: Final = 16384
OPERATOR: Final = 32768

_KINDS = {
    "TEXT": TEXT,
    "BRACE": BRACE,
    "OPEN": OPEN,
    "CLOSE": CLOSE,
    "COMMENT": COMMENT,
    "PREFIX": PREFIX,
    "FLAG": FLAG,
    "NAME": NAME,
    "DOUBLE_COLON": DOUBLE_COLON,
    "COLON": COLON,
    "PUNCTUATION": PUNCTUATION,
    "RUN": RUN,
    "VARIABLE": VARIABLE,
    "STEP": STEP,
    "OPERATOR": OPERATOR,
}

_TEXT_MODE, _HEAD, _NAME_END, _ARGS, _VAR_NAME, _VAR_OP, _VAR_VALUE = range(7)

_WS = re.escape(WHITESPACE)
# How a run begins; where it ends is searched for. Possessive repeats of groups are wrong before Python 3.11.5.
_ARGS_RUN = rf"[^{_WS}{{}}:=\"]|\{{(?!\{{)|\}}(?!\}})"
_VALUE_RUN = rf"[^{_WS}{{}}]|\{{(?!\{{)|\}}(?!\}})"

# A character of two UTF-16 code units is two tokens.
_SINGLE_TOKEN = re.compile(r"[A-Za-z][A-Za-z0-9_-]*+|[^\U00010000-\U0010ffff]", re.DOTALL)

_BLANKS = re.compile(f"[{_WS}]*")
_NAME_END_RULE = re.compile(rf"(?=\}}\}})|(?P<ARGS>[{_WS}]+|(?=[:|}}]))")
_RULES = tuple(
    re.compile(pattern)
    for pattern in (
        # Of three braces the last two open a macro: `{{{user}}}` is a brace, a name and a brace.
        r"(?P<TEXT>[^{]|\{(?!\{))|(?P<BRACE>\{(?=\{\{))|(?P<OPEN>\{\{)",
        (
            rf"[{_WS}]*+(?:(?P<CLOSE>\}}\}})|(?P<COMMENT>//)|(?P<PREFIX>[.$])|(?P<FLAG>[!?~#/>])"
            r"|(?P<NAME>[A-Za-z][A-Za-z0-9_-]*+))"
        ),
        _NAME_END_RULE.pattern,
        (
            rf"[{_WS}]*+(?:(?P<OPEN>\{{\{{)|(?P<DOUBLE_COLON>::)|(?P<COLON>:)|(?P<PUNCTUATION>[=\"])"
            rf"|(?P<RUN>{_ARGS_RUN}))"
        ),
        # A variable's name does not end with a hyphen: `my--` counts `my` down.
        rf"[{_WS}]*+(?P<VARIABLE>[A-Za-z](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?)",
        # There is no `===`: it is `==` with a value that begins with `=`.
        rf"[{_WS}]*+(?:(?P<STEP>\+\+|--)|(?P<OPERATOR>\?\?=|\?\?|\|\|=|\|\||-=|==|!=|>=|>|<=|<|\+=|=))",
        rf"[{_WS}]*+(?:(?P<OPEN>\{{\{{)|(?P<RUN>{_VALUE_RUN}))",
    )
)
_ENDS = {
    _TEXT_MODE: re.compile(r"\{\{"),
    _ARGS: re.compile(r"[:=\"]|\{\{|\}\}"),
    _VAR_VALUE: re.compile(r"\{\{|\}\}"),
}
"""What a text or a run ends before, by mode. A backslash does not protect braces."""
_LONG = TEXT | RUN
# The effect of a token on the stack of modes: how many modes it leaves and which one it enters.
_MOVES: dict[int, tuple[int, int | None]] = {
    OPEN: (0, _HEAD),
    CLOSE: (1, None),
    COMMENT: (0, _ARGS),
    PREFIX: (0, _VAR_NAME),
    NAME: (0, _NAME_END),
    VARIABLE: (1, _VAR_OP),
    OPERATOR: (1, _VAR_VALUE),
}


@dataclass(frozen=True, slots=True)
class Tokens:
    """Parallel lists of kinds and spans, ending with an ``END``; ``errors`` are positions of skipped characters."""

    kinds: list[int]
    starts: list[int]
    ends: list[int]
    errors: list[int]
    too_many: bool = False
    """True if the text has too many tokens and counts as having none."""


def tokenize(text: str) -> Tokens:
    """Split a text into tokens. This never fails; characters that match no rule are skipped and recorded as errors."""
    tokens = Tokens([], [], [], [])
    kinds = tokens.kinds
    add_kind, add_start, add_end = kinds.append, tokens.starts.append, tokens.ends.append
    modes = [_TEXT_MODE]
    position, length = 0, len(text)
    while position < length:
        if len(kinds) >= MAX_TOKENS:
            return Tokens([END], [length], [length], [], too_many=True)
        mode = modes[-1]
        if mode == _NAME_END:
            position = _end_name(text, position, modes, tokens.errors)
            continue
        found = _RULES[mode].match(text, position)
        if found is None:
            # Only the text mode accepts every character; the others end and leave the rest to the mode below.
            modes.pop()
            position = _BLANKS.match(text, position).end()  # pyright: ignore[reportOptionalMemberAccess]  # always fits
            continue
        group = found.lastgroup or ""
        kind = _KINDS[group]
        start, position = found.start(group), found.end()
        if kind & _LONG:
            end = _ENDS[mode].search(text, position)
            position = length if end is None else end.start()
            if kind == RUN:  # without the blanks at its end
                position = start + len(text[start:position].rstrip(WHITESPACE))
        add_kind(kind)
        add_start(start)
        add_end(position)
        moves = _MOVES.get(kind)
        if moves is not None:
            leaves, enters = moves
            if leaves:
                modes.pop()
            if enters is not None:
                modes.append(enters)
    add_kind(END)
    add_start(length)
    add_end(length)
    return tokens


def is_single_token(run: str) -> bool:
    """Return True if SillyTavern reads this ``RUN`` as one token: a word or a single character."""
    return _SINGLE_TOKEN.fullmatch(run) is not None


def _end_name(text: str, position: int, modes: list[int], errors: list[int]) -> int:
    # What is between a name and its arguments is lost, as in SillyTavern: `{{user!}}` and `{{user=1}}` give the name.
    found = _NAME_END_RULE.search(text, position)
    if found is None or found.start() > position:
        errors.append(position)
    modes.pop()
    if found is None:
        return len(text)
    if found.lastgroup == "ARGS":
        modes.append(_ARGS)
    return found.end()
