"""Card files of formats that a program adds, read by the ending of their names."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import TypeAlias

from tavernkit._arguments import require
from tavernkit.cards._bundle import Bundle
from tavernkit.cards._limits import Limits
from tavernkit.cards._source import Readable, require_readable
from tavernkit.errors import ConfigError, Warn

Reader: TypeAlias = Callable[[str, Limits, Warn], Bundle]
"""Gets the path of a file, the limits of the call and where to report damage; returns what the file holds.

A file it cannot read is a ``FileFormatError``.
"""


class ReaderRegistry:
    """Readers by ending (``.mycard``). A reader goes before our own, which tell a file's format by its content."""

    def __init__(self, readers: Mapping[str, Reader] | None = None) -> None:
        require("readers", readers, Mapping[str, Reader] | None)
        self._readers: dict[str, Reader] = {}
        self._lock = threading.Lock()
        for ending, reader in (readers or {}).items():
            self.register(ending, reader)

    def register(self, ending: str, reader: Reader) -> None:
        """Read files of an ending with a reader, in place of an earlier one for that ending.

        Args:
            ending: The file ending, such as ``.note``.
            reader: The function that reads the file.

        Raises:
            ConfigError: ``ending`` cannot be the ending of a file name.
        """
        name = f".{ending.strip().lower().removeprefix('.')}"
        if name == "." or PurePath(f"x{name}").suffix != name:
            raise ConfigError(f"the ending of a file name is a text such as '.mycard', not {ending!r}")
        with self._lock:
            self._readers = {**self._readers, name: reader}

    @property
    def endings(self) -> tuple[str, ...]:
        """The endings that have a reader."""
        return tuple(self._readers)

    def find(self, readable: Readable) -> Reader | None:
        """Find the reader for a path; what is not a path has no ending."""
        require_readable("readable", readable)
        if not self._readers or not isinstance(readable, (str, os.PathLike)):
            return None
        return self._readers.get(PurePath(readable).suffix.lower())

    def copy(self) -> ReaderRegistry:
        """An independent registry with the same readers."""
        return ReaderRegistry(self._readers)


default_readers = ReaderRegistry()
"""The readers of this process."""

register_reader = default_readers.register
