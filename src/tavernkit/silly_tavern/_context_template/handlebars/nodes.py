"""The tree of a template."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from tavernkit._dataclass import dataclass

_SCOPED = re.compile(r"^\.|this\b", re.ASCII)


@dataclass(frozen=True, slots=True)
class Strip:
    """Whether a tag removes the white space before and after it (``~``)."""

    before: bool = False
    after: bool = False


NO_STRIP = Strip()


@dataclass(slots=True)
class Content:
    """Literal text. ``value`` is ``original`` without the white space that tags remove, and begins at ``position``."""

    original: str
    value: str
    position: int
    stripped_before: bool = False
    stripped_after: bool = False


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal text, number, boolean or null in a tag."""

    value: str | float | bool | None
    original: str


@dataclass(frozen=True, slots=True)
class Path:
    """A name, or names joined by dots; ``up`` counts ``../``. With ``data`` it began with ``@``."""

    parts: tuple[str, ...]
    up: int
    data: bool
    original: str

    @property
    def is_name(self) -> bool:
        """True if it is a single name, which may be a helper's; an ``@`` before it does not matter."""
        return len(self.parts) == 1 and not self.up and not self.scoped

    @property
    def scoped(self) -> bool:
        """True if it is a scoped path; Handlebars treats every name that ends in ``this`` as one."""
        return _SCOPED.search(self.original) is not None


@dataclass(frozen=True, slots=True)
class Call:
    """The content of a tag or parentheses: a name and, for helpers, arguments."""

    path: Path
    params: Sequence[Expression]
    hash: Mapping[str, Expression]
    position: int

    @property
    def has_arguments(self) -> bool:
        """True if it can only mean a helper."""
        return bool(self.params or self.hash)


Expression: TypeAlias = "Literal | Path | Call"


@dataclass(frozen=True, slots=True)
class Mustache:
    """A tag with a value."""

    call: Call
    strip: Strip


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment, of which only the position on the line matters."""

    strip: Strip


@dataclass(slots=True)
class Program:
    """A sequence of statements; ``chained`` if it is the rest of an ``else if``."""

    body: list[Statement] = field(default_factory=list["Statement"])
    block_params: tuple[str, ...] = ()
    chained: bool = False


@dataclass(slots=True)
class Block:
    """A block tag with its body."""

    call: Call
    program: Program | None
    inverse: Program | None
    open_strip: Strip
    inverse_strip: Strip
    close_strip: Strip


Statement: TypeAlias = "Content | Mustache | Comment | Block"
