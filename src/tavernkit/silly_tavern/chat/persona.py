"""The user's persona and the place its description has in a prompt."""

from __future__ import annotations

from dataclasses import dataclass

IN_PROMPT, AFTER_CHARACTER, TOP_OF_NOTE, BOTTOM_OF_NOTE, AT_DEPTH, NOWHERE = 0, 1, 2, 3, 4, 9
"""Positions of a persona description. ``AFTER_CHARACTER`` is deprecated: files that have it are read as
``IN_PROMPT``, and a persona that is given it shows nowhere."""

_POSITIONS = {
    "in_prompt": IN_PROMPT,
    "top_an": TOP_OF_NOTE,
    "bottom_an": BOTTOM_OF_NOTE,
    "at_depth": AT_DEPTH,
    "none": NOWHERE,
}


def stored_position(value: object) -> int:
    """Read a position from a file; a number that is written as text is none that SillyTavern knows."""
    if value is None:
        return IN_PROMPT
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not float(value).is_integer():
        return NOWHERE
    return IN_PROMPT if value == AFTER_CHARACTER else int(value)


@dataclass(frozen=True, slots=True)
class Persona:
    """A persona description and where it goes; ``position`` is SillyTavern's number or one of its names.

    The names are ``in_prompt``, ``top_an``, ``bottom_an``, ``at_depth`` and ``none``. Depth and role (0 system, 1 user,
    2 assistant) count only at a depth.
    """

    description: str = ""
    position: int | str = IN_PROMPT
    depth: int | float = 2
    role: int | float = 0
    lorebook: str | None = None

    @property
    def place(self) -> int:
        """The position as a number."""
        return _POSITIONS.get(self.position, NOWHERE) if isinstance(self.position, str) else self.position

    def around_note(self, note: str) -> str:
        """The text of an author's note that is due, with the persona above or below where that is its place."""
        if not self.description:
            return note
        if self.place == TOP_OF_NOTE:
            return self.description + "\n" + note
        return note + "\n" + self.description if self.place == BOTTOM_OF_NOTE else note
