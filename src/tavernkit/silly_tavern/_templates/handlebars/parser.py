"""Splits a template into text and the tokens of its tags, and parses it into a tree."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import number_to_string
from tavernkit._text.traced import plain
from tavernkit.silly_tavern._templates.handlebars.nodes import (
    NO_STRIP,
    Block,
    Call,
    Comment,
    Content,
    Expression,
    Literal,
    Mustache,
    Path,
    Program,
    Statement,
    Strip,
    remove_whitespace,
)
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


MAX_TEMPLATE_CHARS = 1_000_000
"""A longer template is refused."""

MAX_NESTING = 64
"""How deeply blocks and subexpressions may be nested."""

_LITERALS = frozenset({"string", "number", "boolean", "nothing"})
_VALUES = _LITERALS | {"id", "segment", "data", "open_sexpr"}
_HERE = frozenset({"..", ".", "this"})
_ESCAPE_IN_SEGMENT = re.compile(r"\\([\\\]])")


def parse(template: str) -> Program:
    """Parse a template; one that Handlebars refuses raises an error with its line and column.

    The tree of a traced template is that of its plain text, with the positions of literal texts.
    """
    template = plain(template)
    if len(template) > MAX_TEMPLATE_CHARS:
        raise template_error(f"the template is longer than {MAX_TEMPLATE_CHARS} characters", template, 0)
    parser = _Parser(template)
    program = parser.program()
    parser.expect_end()
    remove_whitespace(program)
    return program


@dataclass(frozen=True, slots=True)
class _Opening:
    """The opening tag of a block, or one of its ``else if``."""

    call: Call
    block_params: tuple[str, ...]
    strip: Strip


@dataclass(frozen=True, slots=True)
class _Inverse:
    """What comes after ``else``."""

    strip: Strip
    program: Program


class _Parser:
    def __init__(self, template: str) -> None:
        self._template = template
        self._tokens = list(tokens(template))
        self._index = 0
        self._depth = 0

    def program(self) -> Program:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise self._error(f"blocks are nested deeper than {MAX_NESTING} levels")
        body: list[Statement] = []
        while (statement := self._statement()) is not None:
            body.append(statement)
        self._depth -= 1
        return Program(body)

    def expect_end(self) -> None:
        token = self._next
        if token.kind != "end":
            what = "closes nothing" if token.kind == "open_end" else "cannot stand here"
            raise self._error(f"{token.text} {what}", token)

    @property
    def _next(self) -> Token:
        return self._tokens[self._index]

    def _at(self, kind: str) -> bool:
        return self._next.kind == kind

    def _take(self, *kinds: str) -> Token:
        token = self._next
        if kinds and token.kind not in kinds:
            wanted = "a tag is not closed" if token.kind in ("end", "content") else f"{token.text!r} is not expected"
            raise self._error(wanted, token)
        self._index += 1
        return token

    def _error(self, message: str, token: Token | None = None) -> Exception:
        return template_error(message, self._template, (token or self._next).position)

    def _statement(self) -> Statement | None:
        token = self._next
        match token.kind:
            case "content":
                self._take()
                return Content(token.text, token.text, token.position)
            case "comment":
                self._take()
                return Comment(Strip(token.text[2] == "~", token.text[-3] == "~"))
            case "open":
                return self._mustache("close")
            case "open_unescaped":
                return self._mustache("close_unescaped")
            case "open_block":
                return self._block()
            case "open_inverse":
                return self._inverse_block()
            case "open_raw":
                return self._raw_block()
            case "open_partial" | "open_decorator":
                raise self._error(f"partials and decorators ({token.text}) are not available")
            case _:
                return None

    def _mustache(self, end: str) -> Mustache:
        opening = self._take()
        call = self._call(opening.position)
        closing = self._take(end)
        return Mustache(call, _strip(opening, closing))

    def _block(self) -> Block:
        opening = self._opening("open_block")
        program = self.program()
        program.block_params = opening.block_params
        inverse = self._chain()
        close = self._closing(opening)
        return _block(opening, program, inverse, close)

    def _inverse_block(self) -> Block:
        opening = self._opening("open_inverse")
        inverted = self.program()
        inverted.block_params = opening.block_params
        other = None
        if self._next.kind == "inverse":
            token = self._take()
            other = _Inverse(_strip(token, token), self.program())
        close = self._closing(opening)
        strip = other.strip if other is not None else NO_STRIP
        return Block(opening.call, other.program if other else None, inverted, opening.strip, strip, close)

    def _raw_block(self) -> Block:
        opening = self._take()
        call = self._call(opening.position)
        self._take("close_raw")
        content = self._take("content")
        close = self._take("end_raw")
        if close.text.strip() != call.path.original:
            raise self._error(f"{call.path.original} is closed by {close.text!r}", close)
        body: list[Statement] = [Content(content.text, content.text, content.position)] if content.text else []
        return Block(call, Program(body), None, NO_STRIP, NO_STRIP, NO_STRIP)

    def _opening(self, kind: str) -> _Opening:
        token = self._take(kind)
        call = self._call(token.position)
        names: list[str] = []
        if self._at("open_params"):
            self._take()
            while self._at("id"):
                names.append(self._take().text)
            self._take("close_params")
        return _Opening(call, tuple(names), _strip(token, self._take("close")))

    def _chain(self) -> _Inverse | None:
        if self._next.kind == "inverse":
            token = self._take()
            return _Inverse(_strip(token, token), self.program())
        if self._next.kind != "open_chain":
            return None
        self._depth += 1
        opening = self._opening("open_chain")
        program = self.program()
        program.block_params = opening.block_params
        rest = self._chain()
        self._depth -= 1
        block = _block(opening, program, rest, rest.strip if rest is not None else NO_STRIP)
        return _Inverse(opening.strip, Program([block], chained=True))

    def _closing(self, opening: _Opening) -> Strip:
        if self._next.kind == "end":
            position = opening.call.position
            raise template_error(f"the block {opening.call.path.original!r} is not closed", self._template, position)
        token = self._take("open_end")
        name = self._helper_name()
        if name.original != opening.call.path.original:
            raise self._error(f"{opening.call.path.original!r} is closed by {name.original!r}", token)
        return _strip(token, self._take("close"))

    def _call(self, position: int) -> Call:
        name = self._helper_name()
        path = Path((name.original,), 0, data=False, original=name.original) if isinstance(name, Literal) else name
        params: list[Expression] = []
        named: dict[str, Expression] = {}
        while self._next.kind in _VALUES:
            key = self._next
            if key.kind in ("id", "segment") and self._tokens[self._index + 1].kind == "equals":
                self._index += 2
                named[_plain(key)] = self._value()
            elif named:
                raise self._error("an argument without a name comes after one with a name")
            else:
                params.append(self._value())
        return Call(path, tuple(params), named, position)

    def _value(self) -> Expression:
        if self._next.kind != "open_sexpr":
            return self._helper_name()
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise self._error(f"expressions are nested deeper than {MAX_NESTING} levels")
        call = self._call(self._take().position)
        self._take("close_sexpr")
        self._depth -= 1
        return call

    def _helper_name(self) -> Literal | Path:
        token = self._next
        if token.kind in _LITERALS:
            return _literal(self._take())
        data = token.kind == "data"
        if data:
            self._take()
        return self._path(data=data)

    def _path(self, *, data: bool) -> Path:
        token = self._take("id", "segment")
        original, parts, up = "@" if data else "", list[str](), 0
        while True:
            name = _plain(token)
            original += name
            if token.kind == "segment" or name not in _HERE:
                parts.append(name)
            elif parts:
                raise self._error(f"invalid path: {original}", token)
            elif name == "..":
                up += 1
            if self._next.kind != "sep":
                return Path(tuple(parts), up, data, original)
            original += self._take().text
            token = self._take("id", "segment")


def _block(opening: _Opening, program: Program, inverse: _Inverse | None, close: Strip) -> Block:
    if inverse is None:
        return Block(opening.call, program, None, opening.strip, NO_STRIP, close)
    first = inverse.program.body[0] if inverse.program.chained else None
    if isinstance(first, Block):
        first.close_strip = close
    return Block(opening.call, program, inverse.program, opening.strip, inverse.strip, close)


def _strip(opening: Token, closing: Token) -> Strip:
    return Strip(opening.text[2:3] == "~", closing.text[-3:-2] == "~")


def _plain(token: Token) -> str:
    return _ESCAPE_IN_SEGMENT.sub(r"\1", token.text)[1:-1] if token.kind == "segment" else token.text


def _literal(token: Token) -> Literal:
    text = token.text
    if token.kind == "string":
        value = text[1:-1].replace(f"\\{text[0]}", text[0])
        return Literal(value, value)
    if token.kind == "number":
        return Literal(float(text), number_to_string(float(text)))
    return Literal(text == "true" if token.kind == "boolean" else None, text)
