"""Runs a parsed template."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import is_index_key, own_keys, to_string, truthy, utf16_length, utf16_slice
from tavernkit._text.traced import expanded, plain
from tavernkit._values import LRUCache, is_mapping
from tavernkit.silly_tavern._templates.handlebars.nodes import (
    Block,
    Call,
    Content,
    Expression,
    Literal,
    Mustache,
    Path,
    Program,
)
from tavernkit.silly_tavern._templates.handlebars.parser import parse, template_error
from tavernkit.silly_tavern.errors import InvalidContextTemplateError


class ParameterText(str):
    """The text of a parameter, with its name, so that a rendering knows where its characters came from."""

    __slots__ = ("parameter", "text")

    parameter: str
    text: str

    def __new__(cls, parameter: str, text: str) -> ParameterText:
        """Mark a text."""
        made = super().__new__(cls, text)
        made.parameter = parameter
        made.text = text
        return made


def parameters(texts: Mapping[str, str]) -> dict[str, object]:
    """Mark the texts of a template's parameters."""
    return {name: ParameterText(name, text) for name, text in texts.items()}


def member(value: object, name: str) -> object:
    """A member of a value: of an object by its key, of a text its length or a character; else undefined."""
    if is_mapping(value):
        return value.get(name)
    if isinstance(value, str):
        if name == "length":
            return float(utf16_length(value))
        if is_index_key(name) and int(name) < utf16_length(value):
            return utf16_slice(value, int(name), int(name) + 1)
    return None


def is_empty(value: object) -> bool:
    """True if ``with`` and ``each`` take their else part: for everything false except zero."""
    return not value and not (isinstance(value, (int, float)) and not isinstance(value, bool))


@dataclass(frozen=True, slots=True)
class HelperCall:
    """A helper's arguments, and its block (None if it is called for a value)."""

    name: str
    params: tuple[object, ...]
    hash: Mapping[str, object]
    rendering: Rendering
    frame: Frame
    block: Block | None
    position: int

    def first(self) -> object:
        """The only argument of a block helper."""
        if len(self.params) != 1:
            raise self.rendering.error(f"#{self.name} needs exactly one argument", self.position)
        if self.block is None:
            raise self.rendering.error(f"{self.name} needs a block: write #{self.name}", self.position)
        return self.params[0]

    def then(self, frame: Frame, *names: object) -> None:
        """Render the block's body; ``names`` are the values for its names in ``as |…|``."""
        self._render(self.block.program if self.block is not None else None, frame, names)

    def otherwise(self) -> None:
        """Render what comes after ``else``."""
        self._render(self.block.inverse if self.block is not None else None, self.frame, ())

    def _render(self, program: Program | None, frame: Frame, names: tuple[object, ...]) -> None:
        if program is not None:
            if program.block_params:
                frame = frame.naming(dict(zip(program.block_params, names, strict=False)))
            self.rendering.count(self.position)
            self.rendering.run(program, frame)


Helper: TypeAlias = Callable[[HelperCall], object]
"""Renders a block, or returns a value."""


def if_helper(call: HelperCall) -> None:
    """Render the body if the argument is true; zero is, with ``includeZero=true``."""
    _branch(call, negated=False)


def unless_helper(call: HelperCall) -> None:
    """Render the body if the argument is false."""
    _branch(call, negated=True)


def with_helper(call: HelperCall) -> None:
    """Render the body with the argument as its context."""
    value = call.first()
    if is_empty(value):
        call.otherwise()
    else:
        call.then(call.frame.inside(value), value)


def each_helper(call: HelperCall) -> None:
    """Render the body for each member of an object; a text has none."""
    value = call.first()
    if not is_mapping(value) or not value:
        call.otherwise()
        return
    keys = own_keys(value)
    for index, key in enumerate(keys):
        data = {"key": key, "index": float(index), "first": index == 0, "last": index == len(keys) - 1}
        call.then(call.frame.inside(value[key], data), value[key], key)


def lookup_helper(call: HelperCall) -> object:
    """Return a member of a value by a computed name; false values are returned unchanged."""
    if call.params and not truthy(call.params[0]):
        return call.params[0]
    if len(call.params) != 2:
        raise call.rendering.error("lookup needs a value and a name", call.position)
    return member(call.params[0], to_string(call.params[1]))


def trim_helper(_call: HelperCall) -> str:
    """Leave ``{{trim}}`` to the macro stage."""
    return "{{trim}}"


def log_helper(_call: HelperCall) -> None:
    """Write nothing into the prompt."""


HELPERS: Mapping[str, Helper] = {
    "if": if_helper,
    "unless": unless_helper,
    "with": with_helper,
    "each": each_helper,
    "lookup": lookup_helper,
    "log": log_helper,
    "trim": trim_helper,
}


def _branch(call: HelperCall, *, negated: bool) -> None:
    value = call.first()
    holds = not is_empty(value) if truthy(call.hash.get("includeZero")) else truthy(value)
    if holds != negated:
        call.then(call.frame)
    else:
        call.otherwise()


MAX_RENDER_STEPS = 20_000
"""How many tags and bodies of blocks one rendering may run, to stop nested loops."""

MAX_OUTPUT_CHARS = 20_000_000
"""How many characters one rendering may produce, to stop loops over long values."""

MAX_CACHED_TEMPLATES = 64
"""How many compiled templates are kept."""

MAX_CACHED_CHARS = 65_536
"""Longer templates are parsed each time, so that the cache stays small."""

NO_NAMES: Mapping[str, object] = {}


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a rendered template, and its parameter, if it comes from one."""

    text: str
    parameter: str | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """The scope of a tag: the contexts around it, innermost first, the data of loops, and named values."""

    contexts: tuple[object, ...]
    data: tuple[Mapping[str, object], ...]
    names: Mapping[str, object] = field(default_factory=lambda: NO_NAMES)

    def inside(self, context: object, data: Mapping[str, object] | None = None) -> Frame:
        """Return the frame of a body with another context; the same value again is not a new level."""
        contexts = self.contexts if context == self.contexts[0] else (context, *self.contexts)
        return replace(self, contexts=contexts, data=self.data if data is None else (data, *self.data))

    def naming(self, names: Mapping[str, object]) -> Frame:
        """Return the frame of a body with named values."""
        return replace(self, names={**self.names, **names})


@dataclass(frozen=True, slots=True)
class Names:
    """The meaning of names that are not parameters.

    ``missing`` returns the text of a name that is not a helper either. With ``strict``, such a name may not have
    arguments.
    """

    missing: Callable[[str], str | None]
    helpers: Mapping[str, Helper] = field(default_factory=lambda: HELPERS)
    strict: bool = False


class Rendering:
    """One run of a template."""

    def __init__(self, template: str, names: Names) -> None:
        self._template = template
        self._is_plain = type(template) is str
        self._names = names
        self._steps = 0
        self._length = 0
        self.pieces: list[Piece] = []

    def start(self, program: Program, context: Mapping[str, object]) -> list[Piece]:
        """Run the whole template."""
        self.run(program, Frame((context,), ({"root": context},)))
        return self.pieces

    def error(self, message: str, position: int) -> InvalidContextTemplateError:
        """Return an error at a position of the template."""
        return template_error(message, self._template, position)

    def run(self, program: Program, frame: Frame) -> None:
        """Run statements."""
        for statement in program.body:
            match statement:
                case Content():
                    value, start = statement.value, statement.position
                    self._write(value if self._is_plain else self._template[start : start + len(value)], 0)
                case Mustache():
                    value = self._value_of_call(statement.call, frame)
                    self._write(value, statement.call.position, statement.call.path.original)
                case Block():
                    self._block(statement, frame)
                case _:
                    pass

    def _write(self, value: object, position: int, name: str = "") -> None:
        if value is None:
            return
        text = value if isinstance(value, str) else to_string(value)
        self._length += len(text)
        if self._length > MAX_OUTPUT_CHARS:
            raise self.error(f"the template gives more than {MAX_OUTPUT_CHARS} characters", position)
        if text:
            parameter = value.parameter if isinstance(value, ParameterText) else None
            written = value.text if isinstance(value, ParameterText) else str(text)
            if name and not self._is_plain:
                closing = "}}}" if self._template.startswith("{{{", position) else "}}"
                end = self._template.find(closing, position) + len(closing)
                written = expanded(written, name, self._template[position:end])
            self.pieces.append(Piece(written, parameter))

    def count(self, position: int) -> None:
        """Count a step; raise if there are too many."""
        self._steps += 1
        if self._steps > MAX_RENDER_STEPS:
            raise self.error(f"the template runs more than {MAX_RENDER_STEPS} tags", position)

    def _value_of_call(self, call: Call, frame: Frame) -> object:
        """Return the value of a tag: of a helper, a parameter, or the macro of that name."""
        self.count(call.position)
        helper = self._helper(call.path)
        if helper is not None:
            return helper(self._helper_call(call, frame, None))
        value = self._lookup(call.path, frame)
        return self._not_callable(call, value) if call.has_arguments else self._or_missing(value, call.path)

    def _value_of_subexpression(self, call: Call, frame: Frame) -> object:
        """Return the value of parentheses, which can only contain a helper."""
        if call.has_arguments or self._helper(call.path) is not None:
            return self._value_of_call(call, frame)
        self.count(call.position)
        return self._not_callable(call, self._lookup(call.path, frame))

    def _helper(self, path: Path) -> Helper | None:
        return self._names.helpers.get(path.parts[0]) if path.is_name else None

    def _or_missing(self, value: object, path: Path) -> object:
        return self._names.missing(path.parts[0]) if value is None and path.is_name else value

    def _not_callable(self, call: Call, value: object) -> str | None:
        if value or self._names.strict:
            raise self.error(f"{call.path.original!r} is not a helper and takes no arguments", call.position)
        return self._names.missing(call.path.original)

    def _helper_call(self, call: Call, frame: Frame, block: Block | None) -> HelperCall:
        return HelperCall(
            name=call.path.original,
            params=tuple(self._expression(param, frame) for param in call.params),
            hash={key: self._expression(value, frame) for key, value in call.hash.items()},
            rendering=self,
            frame=frame,
            block=block,
            position=call.position,
        )

    def _block(self, block: Block, frame: Frame) -> None:
        call = block.call
        self.count(call.position)
        helper = self._helper(call.path)
        if helper is not None:
            self._write(helper(self._helper_call(call, frame, block)), call.position)
            return
        value = self._lookup(call.path, frame)
        if call.has_arguments:
            self._write(self._not_callable(call, value), call.position)
            return
        self._section(block, self._or_missing(value, call.path), frame)

    def _section(self, block: Block, value: object, frame: Frame) -> None:
        """Render a block by a value's name: its body, with the value as context, unless there is no value."""
        if value is False or value is None:
            if block.inverse is not None:
                self.run(block.inverse, frame)
        elif block.program is not None:
            inner = frame if value is True else frame.inside(value)
            if block.program.block_params:
                inner = inner.naming(dict(zip(block.program.block_params, (value,), strict=False)))
            self.run(block.program, inner)

    def _expression(self, expression: Expression, frame: Frame) -> object:
        match expression:
            case Literal():
                return expression.value
            case Path():
                return self._lookup(expression, frame)
            case Call():
                return self._value_of_subexpression(expression, frame)

    def _lookup(self, path: Path, frame: Frame) -> object:
        if path.data:
            return self._lookup_data(path, frame)
        parts = path.parts
        if parts and not path.up and not path.scoped and parts[0] in frame.names:
            value, parts = frame.names[parts[0]], parts[1:]
        elif path.up < len(frame.contexts):
            value = frame.contexts[path.up]
        else:
            return None
        for part in parts:
            value = member(value, part)
        return value

    def _lookup_data(self, path: Path, frame: Frame) -> object:
        """Look up ``@name``: data of a loop, ``@root`` the parameters; ``@../name`` is data of an outer loop."""
        if not path.parts:
            return None
        name, *rest = path.parts
        levels = frame.data[path.up :]
        value: object = next((level[name] for level in levels if name in level), None)
        for part in rest:
            value = member(value, part)
        return value


@dataclass(frozen=True, slots=True)
class Template:
    """A template that was parsed once; it can be rendered in any number of threads."""

    text: str
    program: Program

    @classmethod
    def compile(cls, text: str) -> Template:
        """Parse a template, or return the cached one; a malformed one raises ``InvalidContextTemplateError``."""
        if len(text) > MAX_CACHED_CHARS:
            return cls(text, parse(text))
        if type(text) is not str:  # traced templates share the tree of equal texts, and write their own text
            return cls(text, cls.compile(plain(text)).program)
        return _CACHE.get_or_make(text, lambda: cls(text, parse(text)))

    def render(self, texts: Mapping[str, str], missing: Callable[[str], str]) -> list[Piece]:
        """Fill in the parameters. ``missing`` is called with every other name."""
        return Rendering(self.text, Names(missing)).start(self.program, parameters(texts))


_CACHE: LRUCache[str, Template] = LRUCache(MAX_CACHED_TEMPLATES)
