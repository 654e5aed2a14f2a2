"""The values of a template, with JavaScript's semantics, and the helpers that a story string can call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import is_index_key, own_keys, to_string, truthy, utf16_length, utf16_slice
from tavernkit._values import is_mapping

if TYPE_CHECKING:
    from tavernkit.silly_tavern._context_template.handlebars.nodes import Block, Program
    from tavernkit.silly_tavern._context_template.handlebars.rendering import Frame, Rendering


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
