"""Splits a template into text and the tokens of its tags."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator

from tavernkit._dataclass import dataclass
from tavernkit.silly_tavern.errors import InvalidContextTemplateError


def template_error(message: str, template: str, position: int) -> InvalidContextTemplateError:
    """Return an error with its line and column, both from 1."""
    line = template.count("\n", 0, position) + 1
    column = position - (template.rfind("\n", 0, position) + 1) + 1
    return InvalidContextTemplateError(f"line {line}, column {column}: {message}", line=line, column=column)


_AFTER_NAME = r"(?=[=~}\s/.)\]|])"
_AFTER_LITERAL = r"(?=[~}\s)\]])"
_BLANK = r"[\s\ufeff]"

_RULES: tuple[tuple[str, str], ...] = (
    ("open_sexpr", r"\("),
    ("close_sexpr", r"\)"),
    ("open_raw", r"\{\{\{\{"),
    ("close_raw", r"\}\}\}\}"),
    ("open_partial", r"\{\{~?(?:>|#>)"),
    ("open_decorator", r"\{\{~?#?\*"),
    ("open_block", r"\{\{~?#"),
    ("open_end", r"\{\{~?/"),
    ("inverse", rf"\{{\{{~?\^{_BLANK}*~?\}}\}}|\{{\{{~?{_BLANK}*else{_BLANK}*~?\}}\}}"),
    ("open_inverse", r"\{\{~?\^"),
    ("open_chain", rf"\{{\{{~?{_BLANK}*else(?![A-Za-z0-9_])"),
    ("open_unescaped", r"\{\{~?\{"),
    ("open", r"\{\{~?&"),
    ("comment", r"\{\{~?!(?=--)[\s\S]*?--~?\}\}|\{\{~?!(?!--)[\s\S]*?\}\}"),
    ("open", r"\{\{~?"),
    ("equals", r"="),
    ("id", r"\.\."),
    ("id", rf"\.{_AFTER_NAME}"),
    ("sep", r"[/.]"),
    ("blank", rf"{_BLANK}+"),
    ("close_unescaped", r"\}~?\}\}"),
    ("close", r"~?\}\}"),
    ("string", r'"(?:[^"\\]++|\\"|\\)*"'),
    ("string", r"'(?:[^'\\]++|\\'|\\)*'"),
    ("data", r"@"),
    ("boolean", rf"(?:true|false){_AFTER_LITERAL}"),
    ("nothing", rf"(?:undefined|null){_AFTER_LITERAL}"),
    ("number", rf"-?[0-9]+(?:\.[0-9]+)?{_AFTER_LITERAL}"),
    ("open_params", rf"as{_BLANK}+\|"),
    ("close_params", r"\|"),
    ("id", rf"[^\s\ufeff!\"#%-,./;->@\[-^`{{-~]+{_AFTER_NAME}"),
    ("segment", r"\[(?:[^\]\\]++|\\\]|\\)*\]"),
)
"""Kinds of tokens inside tags; the first match counts."""

_TOKEN = re.compile("|".join(f"(?P<t{number}>{pattern})" for number, (_, pattern) in enumerate(_RULES)))
_KINDS = tuple(kind for kind, _ in _RULES)
_TAG_ENDS = frozenset({"close", "close_unescaped", "inverse", "comment"})
_ESCAPED_END = re.compile(r"\\{0,2}\{\{")


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a template."""

    kind: str
    text: str
    position: int


def tokens(template: str) -> Iterator[Token]:
    r"""Split a template. ``\{{`` is text up to the next tag; ``\\{{`` is a backslash and a tag."""
    position = 0
    while position < len(template):
        opening = template.find("{{", position)
        if opening < 0:
            yield Token("content", template[position:], position)
            break
        text = template[position:opening]
        escaped = text.endswith("\\") and not text.endswith("\\\\")
        text = text.removesuffix("\\")
        if text:
            yield Token("content", text, position)
        if escaped:
            following = _ESCAPED_END.search(template, opening + 2)
            position = following.start() if following is not None else len(template)
            yield Token("content", template[opening:position], opening)
        else:
            position = yield from _tag(template, opening)
    yield Token("end", "", len(template))


def _tag(template: str, position: int) -> Generator[Token, None, int]:
    """Read the tokens of the tag that begins here; return where it ends."""
    raw = False
    while True:
        found = _TOKEN.match(template, position)
        if found is None:
            raise _unexpected(template, position)
        kind = _KINDS[(found.lastindex or 1) - 1]
        if kind != "blank":
            yield Token(kind, found.group(), position)
        raw = raw or kind == "open_raw"
        position = found.end()
        if kind == "close_raw" and raw:
            return (yield from _raw_content(template, position))
        if kind in _TAG_ENDS:
            return position


def _raw_content(template: str, position: int) -> Generator[Token, None, int]:
    """Everything up to ``{{{{/``, and the closing tag."""
    end = template.find("{{{{/", position)
    if end < 0:
        raise template_error("a raw block is not closed", template, position)
    yield Token("content", template[position:end], position)
    close = template.find("}}}}", end)
    if close < 0:
        raise template_error("a closing tag is not finished", template, end)
    yield Token("end_raw", template[end + 5 : close], end)
    return close + 4


def _unexpected(template: str, position: int) -> Exception:
    if position >= len(template):
        return template_error("a tag is not closed", template, position)
    return template_error(f"{template[position]!r} is not allowed in a tag", template, position)
