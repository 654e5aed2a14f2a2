"""Readers for additional card formats, selected by file extension."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import TypeAlias

from tavernkit.cards._bundle import Bundle
from tavernkit.cards._limits import Limits
from tavernkit.cards._source import Readable, require_readable
from tavernkit.errors import ConfigError, Warn

Reader: TypeAlias = Callable[[str, Limits, Warn], Bundle]
"""Gets the path of a file, the limits of the call and where to report damage; returns the contents of the file.

Raises ``FileFormatError`` if it cannot read the file.
"""


class ReaderRegistry:
    """Readers by file extension (``.mycard``). They take precedence over our own, which detect formats by content."""

    def __init__(self, readers: Mapping[str, Reader] | None = None) -> None:
        self._readers: dict[str, Reader] = {}
        self._lock = threading.Lock()
        for ending, reader in (readers or {}).items():
            self.register(ending, reader)

    def register(self, ending: str, reader: Reader) -> None:
        """Register a reader for a file extension; it replaces an earlier one.

        Args:
            ending: The file extension, such as ``.note``.
            reader: The function that reads the file.

        Raises:
            ConfigError: ``ending`` is not a valid file extension.
        """
        name = f".{ending.strip().lower().removeprefix('.')}"
        if name == "." or PurePath(f"x{name}").suffix != name:
            raise ConfigError(f"ending must be a file name extension such as '.mycard', not {ending!r}")
        with self._lock:
            self._readers = {**self._readers, name: reader}

    @property
    def endings(self) -> tuple[str, ...]:
        """The file extensions with a reader."""
        return tuple(self._readers)

    def find(self, readable: Readable) -> Reader | None:
        """Return the reader for a path; None if it is not a path or has no reader."""
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
