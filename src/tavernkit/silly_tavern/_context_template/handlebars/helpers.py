"""The helpers a story string can call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import own_keys, to_string, truthy
from tavernkit._values import is_mapping
from tavernkit.silly_tavern._context_template.handlebars.values import is_empty, member

if TYPE_CHECKING:
    from tavernkit.silly_tavern._context_template.handlebars.nodes import Block, Program
    from tavernkit.silly_tavern._context_template.handlebars.rendering import Frame, Rendering


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
