"""Atomic file writes: after a crash or with a full disk, there is the old file or the new one."""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PART = ".part"
"""The suffix of temporary files."""
_NAME_CHARACTERS = 48
"""How much of a file's name is in that of its temporary file."""
LEFT_BEHIND_SECONDS = 600
"""Temporary files that were not written to for this long are left from a killed process."""


def write_atomically(path: Path, *content: bytes) -> None:
    """Write a file atomically: a temporary file next to it replaces it once it is on disk.

    Args:
        path: The file. Links are followed; an existing file keeps its mode.
        content: The new content, which may be in parts.

    Raises:
        OSError: It could not be written; the old file is unchanged.
    """

    def write(part: Path) -> None:
        with part.open("wb") as stream:
            stream.writelines(content)

    replace_atomically(path, write)


def replace_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Replace a file with one that a function writes, once that is on disk.

    Args:
        path: The file to replace.
        write: Gets the path of the temporary file.
    """
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{_part_start(target)}{secrets.token_hex(4)}{PART}")
    part.touch(exist_ok=False)
    try:
        mode = stat.S_IMODE((target if target.exists() else part).stat().st_mode)
        part.chmod(0o600)
        write(part)
        with part.open("rb+") as stream:
            os.fsync(stream.fileno())
        part.chmod(mode)
        part.replace(target)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    _sync_folder(target.parent)


def remove_parts(path: Path) -> None:
    """Remove temporary files that a killed process left next to a file; new ones may belong to a running process."""
    target = path.resolve()
    for left in target.parent.glob(f"{_literal(_part_start(target))}*{PART}"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > LEFT_BEHIND_SECONDS:
                left.unlink()


def _part_start(target: Path) -> str:
    return f".{target.name[:_NAME_CHARACTERS]}."  # a file name may have 255 bytes


def _sync_folder(folder: Path) -> None:
    # The new name is on disk only after syncing the folder. Windows cannot open folders, and need not.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _literal(name: str) -> str:
    """Return a glob pattern that matches only this file name."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)
