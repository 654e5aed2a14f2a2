"""Reads options that people write by hand: names, numbers and lists of names in several spellings.

Invalid and unknown options are refused, with what to pass instead.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import NoReturn

from tavernkit._text.coerce import boolean, trim_blanks
from tavernkit._values import is_mapping, is_sequence, shown
from tavernkit.errors import ConfigError

_INTEGER = re.compile(r"[+-]?[0-9]{1,300}")


def option_name(value: object) -> str:
    """Normalise a name: trimmed, lower case, ``_`` for ``-``."""
    return trim_blanks(str(value)).lower().replace("-", "_")


def integer(value: object) -> int | None:
    """Read a whole number: an integer, a float (truncated), or integer text; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return int(value) if value == value and abs(value) != float("inf") else None
    if isinstance(value, str):
        text = trim_blanks(value)
        return int(text) if _INTEGER.fullmatch(text) else None
    return None


def positive_integer(value: object, *, default: int | None = None) -> int | None:
    """Read a whole number above zero; anything else is the default."""
    number = integer(value)
    return number if number is not None and number > 0 else default


def positive_number(value: object, *, default: float | None = None) -> float | None:
    """Read a number above zero; anything else is the default."""
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            number = float(value)
        except ValueError:
            return default
        if 0 < number < float("inf"):
            return number
    return default


def names(value: object) -> list[str] | None:
    """Read a list of names: a list, or text with commas. Trimmed, without blank ones; None stays None."""
    if value is None:
        return None
    parts: Iterable[object] = value.split(",") if isinstance(value, str) else value if is_sequence(value) else (value,)
    return [name for name in (trim_blanks(str(part)) for part in parts if part is not None) if name]


def merge_names(left: object, right: object) -> object:
    """Merge lists of names without duplicates; None and an empty list clear.

    Values that are not lists of names are kept, and refused when the options are read.
    """
    if not _are_names(right):
        return right
    old, new = names(left), names(right)
    return list(dict.fromkeys([*(old or ()), *new])) if new else []


def section(value: object, name: str) -> Mapping[str, object]:
    """Return a configuration section: a mapping, or None."""
    if value is None:
        return {}
    if not is_mapping(value):
        raise ConfigError(f"{name} must be a mapping, not {type(value).__name__}", code="SECTION_NOT_A_MAPPING")
    return value


class OptionReader:
    """Reads one section of options; None means that an option is not given.

    ``kind`` is the typed dictionary that lists the section's options. Numbers and booleans may be text; numbers that
    are out of range count as not given.
    """

    def __init__(self, value: object, name: str, kind: type) -> None:
        self._options = section(value, name)
        self._name = name
        for key in self._options:
            if key not in kind.__annotations__:
                self._refuse_unknown(str(key), kind.__annotations__)

    def get(self, key: str) -> object:
        """Return an option unchanged."""
        return self._options.get(key)

    def flag(self, key: str, *, default: bool) -> bool:
        """Read yes or no."""
        value = self.get(key)
        if value is None or value == "":
            return default
        read = boolean(value, None)
        return self._refuse(key, "True or False") if read is None else read

    def integer(self, key: str) -> int | None:
        """Read a whole number."""
        value = self.get(key)
        read = integer(value)
        if read is None and not is_blank(value):
            self._refuse(key, "a whole number")
        return read

    def positive_integer(self, key: str) -> int | None:
        """Read a whole number above zero."""
        read = self.integer(key)
        return read if read is not None and read > 0 else None

    def positive_number(self, key: str) -> float | None:
        """Read a number above zero."""
        value = self.get(key)
        if is_blank(value):
            return None
        if not isinstance(value, (int, float, str)) or isinstance(value, bool):
            self._refuse(key, "a number")
        try:
            float(value)
        except ValueError:
            self._refuse(key, "a number")
        return positive_number(value)

    def text(self, key: str) -> str | None:
        """Read a text, trimmed; a blank one counts as not given."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            self._refuse(key, "a text")
        return trim_blanks(value) or None

    def choice(self, key: str, known: tuple[str, ...], *, default: str) -> str:
        """Read one of a few names; the error's code is the option's name in capitals."""
        value = self.get(key)
        if is_blank(value):
            return default
        name = option_name(value) if isinstance(value, str) else ""
        if name not in known:
            near = suggestion(name, known)
            message = f"{key} must be one of {', '.join(known)}, not {shown(value)}{near}"
            raise ConfigError(message, code=key.upper())
        return name

    def names(self, key: str) -> tuple[str, ...]:
        """Read a list of names, or text with commas."""
        value = self.get(key)
        if not _are_names(value):
            self._refuse(key, "a list of names, such as ['name']")
        return tuple(names(value) or ())

    def mapping(self, key: str) -> Mapping[str, object]:
        """Read a mapping."""
        return section(self.get(key), f"{self._name}.{key}")

    def _refuse(self, key: str, wanted: str) -> NoReturn:
        given = self.get(key)
        message = f"{self._name}.{key} must be {wanted}, not {type(given).__name__} {shown(given)}"
        raise ConfigError(message, code="INVALID_OPTION")

    def _refuse_unknown(self, key: str, known: Iterable[str]) -> NoReturn:
        known = sorted(known)
        near = suggestion(key, known) or f"; it has {', '.join(known)}"
        raise ConfigError(f"{self._name} has no option {key!r}{near}", code="UNKNOWN_OPTION")


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return a "did you mean" suggestion for the end of a message, or an empty text."""
    near = difflib.get_close_matches(option_name(name), list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _are_names(value: object) -> bool:
    if value is None or isinstance(value, str):
        return True
    return is_sequence(value) and all(isinstance(each, str) for each in value)


def is_blank(value: object) -> bool:
    """Return True if a value is None or blank text."""
    return value is None or (isinstance(value, str) and not trim_blanks(value))
