"""The parts of a parsed pattern."""

from __future__ import annotations

from typing import Literal, TypeAlias

from tavernkit._dataclass import dataclass

INFINITE = 2**31 - 1
"""The count of a repetition without an upper limit; larger counts are reduced to it, because no text is that long."""


@dataclass(frozen=True, slots=True)
class Char:
    """One character: a UTF-16 code unit, or a code point with the ``u`` or ``v`` flag."""

    code: int


@dataclass(frozen=True, slots=True)
class Dot:
    """Any character except a line end (any character with the ``s`` flag)."""


ClassItem: TypeAlias = tuple[int, int] | str
"""A range of characters, or an escape without its backslash (``d``, ``W``, ``p{Lu}``)."""


@dataclass(frozen=True, slots=True)
class CharClass:
    """One character of a class; a single escape is also a class."""

    items: tuple[ClassItem, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class SetClass:
    """A class or property of ``v`` mode, as written; with ``strings`` it may match several characters, or none."""

    source: str
    strings: bool


@dataclass(frozen=True, slots=True)
class Assertion:
    """A position in the text: ``^``, ``$``, ``b`` or ``B``."""

    kind: Literal["^", "$", "b", "B"]


@dataclass(frozen=True, slots=True)
class BackReference:
    """What a group captured; several groups if alternatives share the name."""

    groups: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts one after the other."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Alternatives, tried in order."""

    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A group: ``number`` is ``None`` if it does not capture; ``modifiers`` are those of ``(?i-s:…)``."""

    body: Node
    number: int | None = None
    modifiers: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """A lookahead or lookbehind."""

    body: Node
    behind: bool
    negative: bool


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part several times."""

    body: Node
    least: int
    most: int
    greedy: bool


Node: TypeAlias = (
    Char | Dot | CharClass | SetClass | Assertion | BackReference | Sequence | Alternatives | Group | Look | Repeat
)
"""Any part of a pattern."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parsed pattern with its flags; ``names`` maps names to groups.

    ``part_count`` is how many groups, classes, assertions and repetitions it has; escapes count as characters.
    ``properties`` are its ``p{…}`` and ``P{…}``.
    """

    root: Node
    flags: str
    group_count: int
    names: dict[str, tuple[int, ...]]
    has_modifiers: bool
    part_count: int
    properties: tuple[str, ...]

    @property
    def unicode(self) -> bool:
        """True if the pattern counts code points instead of UTF-16 code units."""
        return "u" in self.flags or "v" in self.flags
