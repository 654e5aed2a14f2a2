"""Files on the command line: ``-`` is stdin, and every error names the file."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tavernkit.errors import ConfigError, FileFormatError, log_warning

if TYPE_CHECKING:
    from tavernkit.cards import Bundle, Character

STDIN = "-"
"""The name that means stdin."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_STDIN_TWICE = f"{STDIN} is given twice: only one file can be read from stdin"
_STDIN_READ: ContextVar[list[Path]] = ContextVar("stdin_read")


def shown(path: Path) -> str:
    """Return the name of a file for messages."""
    return "stdin" if str(path) == STDIN else str(path)


@contextmanager
def naming(path: Path) -> Generator[None]:
    """Add the file's name to errors about its content."""
    try:
        yield
    except FileFormatError as error:
        if path.name in str(error):
            raise
        raise FileFormatError(f"{shown(path)}: {error}") from error


@contextmanager
def stdin_once() -> Generator[None]:
    """Allow stdin for only one file of a command."""
    token = _STDIN_READ.set([])
    try:
        yield
    finally:
        _STDIN_READ.reset(token)


def refuse_two_stdins(*given: str | Path | Sequence[Path] | None) -> None:
    """Raise if more than one file of a command is stdin, before anything is read."""
    if sum(str(path) == STDIN for path in _paths(given)) > 1:
        raise typer.BadParameter(_STDIN_TWICE)


def readable(path: str | Path) -> Path | bytes:
    """Return what loaders accept: the path of a file, or the content of stdin or a pipe, which cannot be read twice."""
    path = Path(path)
    return read_bytes(path) if str(path) == STDIN or _is_pipe(path) else path


def read_bytes(path: Path) -> bytes:
    """Read a whole file, pipe or stdin."""
    from tavernkit.cards import DEFAULT_LIMITS

    most = DEFAULT_LIMITS.max_file_bytes
    if path.is_dir():
        raise ConfigError(f"{str(path)!r} is a folder, not a file")
    if str(path) == STDIN:
        read = _STDIN_READ.get()
        if read:
            raise typer.BadParameter(_STDIN_TWICE)
        read.append(path)
        data = sys.stdin.buffer.read(most + 1)
    elif path.exists():
        with path.open("rb") as stream:
            data = stream.read(most + 1)
    else:
        raise ConfigError(f"there is no file {str(path)!r}")
    if len(data) > most:
        raise FileFormatError(f"{shown(path)} has more than {most} bytes")
    return data


def _is_pipe(path: Path) -> bool:
    return path.is_fifo() or path.is_char_device()


def read_text(path: Path) -> str:
    """Read a whole text; invalid UTF-8 is replaced and reported."""
    data = read_bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        log_warning(f"{shown(path)}: invalid UTF-8 at byte {error.start}; unreadable bytes become U+FFFD")
        return data.decode("utf-8-sig", "replace")


def json_text(value: object, *, indent: int = 2) -> str:
    """Return indented JSON with a line end; lone surrogates, which UTF-8 cannot encode, are escaped.

    Args:
        value: What to write.
        indent: Spaces per level.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent) + "\n"
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def write_text(target: Path, text: str) -> None:
    """Write a text as UTF-8, which cannot encode lone surrogates: they become U+FFFD.

    Args:
        target: The file.
        text: Its content.
    """
    target.write_text(_SURROGATE.sub("\ufffd", text), encoding="utf-8")


def check_free(target: Path, *, force: bool | None = None) -> None:
    """Refuse to overwrite a file unless allowed; ``None`` means that no option allows it."""
    if target.exists() and not force:
        raise typer.BadParameter(
            f"{target} already exists" + (": use --force to overwrite it" if force is False else "")
        )


def refuse_input(target: Path | None, *given: str | Path | Sequence[Path] | None) -> None:
    """Refuse to overwrite a file that the command reads, before anything is read.

    Args:
        target: The file to write, if there is one.
        given: The files to read.
    """
    if target is not None and any(_is_same(target, path) for path in _paths(given)):
        raise typer.BadParameter(f"{target} is a file that this command reads: choose another file to write")


def _is_same(target: Path, other: Path) -> bool:
    try:
        return target.samefile(other)
    except (OSError, ValueError):  # one does not exist, or is a name in an installation
        return False


def _paths(given: Iterable[str | Path | Sequence[Path] | None]) -> list[Path]:
    """Return the files that options name, with one value or several."""
    return [Path(path) for each in given for path in ([each] if isinstance(each, (str, Path)) else each or ())]


def character_of(bundle: Bundle, path: Path) -> Character:
    """Return the character of a card file; the error for other files says which commands read them."""
    if bundle.card is not None:
        return bundle.card
    what = "RisuAI module" if bundle.module is not None else "lore book"
    raise FileFormatError(f"{shown(path)} is a {what}, not a character card: tavernkit lint and lore scan read it")


def load_card(path: Path, *, strict: bool = False) -> Bundle:
    """Open a card; its warnings are reported. A pipe is read completely, because it cannot be read twice."""
    from tavernkit.cards import load

    def warn(message: str) -> None:
        log_warning(f"{shown(path)}: {message}")

    with naming(path):
        return load(readable(path), strict=strict, warn=None if strict else warn)
