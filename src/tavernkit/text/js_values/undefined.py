"""JavaScript's ``undefined``, for the few places where it differs from ``null`` (which is ``None``)."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Undefined(Enum):
    """The type of :data:`UNDEFINED`."""

    UNDEFINED = "undefined"

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "UNDEFINED"


UNDEFINED: Final = Undefined.UNDEFINED
"""JavaScript's ``undefined``."""
