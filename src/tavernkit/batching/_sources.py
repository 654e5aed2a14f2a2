"""Where the values of a grid come from: lists, globs, and columns of JSONL, CSV, Parquet and text files."""

from __future__ import annotations

import csv
import json
import weakref
from array import array
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final, overload

from tavernkit._values import Json, is_mapping, is_sequence, thaw
from tavernkit.batching._parquet import read_columns
from tavernkit.errors import ConfigError, Warn

MAX_ROW_BYTES: Final = 16 * 1024 * 1024
"""Longer lines of a file are left out, with a warning."""
TABLE_SUFFIXES: Final = (".jsonl", ".ndjson", ".txt", ".csv", ".tsv", ".parquet", ".json")
_GLOB_CHARACTERS: Final = frozenset("*?[")


def read_paths(value: object, folder: Path, where: str, warn: Warn) -> list[str]:
    """Read one path or glob, or a list of them; an empty text means "none".

    Args:
        value: The value in the grid.
        folder: Paths are relative to it.
        where: The key in the grid, for messages.
        warn: Called with globs that match nothing, if others of the list do.

    Raises:
        ConfigError: A value is not a path, or no file matches.
    """
    found: list[str] = []
    problems: list[str] = []
    for each in value if is_sequence(value) else (value,):
        if not isinstance(each, str):
            raise ConfigError(f"{where} must be paths or globs, not {each!r}", code="INVALID_GRID")
        paths = _matches(each, folder, where) if _GLOB_CHARACTERS & set(each) else [each]
        found += paths
        if not paths:
            problems.append(f"{where}: no file matches {each!r} in {folder}")
    for problem in problems:
        if not found:
            raise ConfigError(problem, code="INVALID_GRID")
        warn(problem)
    return found


def _matches(pattern: str, folder: Path, where: str) -> list[str]:
    if (folder / pattern).exists():  # a file whose name looks like a pattern
        return [pattern]
    root, tail = (Path(pattern).anchor, pattern[len(Path(pattern).anchor) :])
    start = Path(root) if root else folder
    try:
        files = sorted(path for path in start.glob(tail) if path.is_file())
    except (ValueError, NotImplementedError) as error:
        raise ConfigError(f"{where}: {pattern!r} is not a glob: {error}", code="INVALID_GRID") from error
    return [str(path) if root else path.relative_to(folder).as_posix() for path in files]


def read_table(value: Mapping[str, object], folder: Path, where: str, warn: Warn) -> Sequence[Json]:
    """Read ``{file = "…", column = "…"}``: one value for each row of a table.

    Args:
        value: The value in the grid.
        folder: The file is relative to it.
        where: The key in the grid, for messages.
        warn: Called with rows that cannot be read; they are left out.

    Raises:
        ConfigError: The file cannot be read, or has no such column.
    """
    for key in value:
        if key not in ("file", "column"):
            raise ConfigError(f"{where} has no {key!r}: a table is {{file = …, column = …}}", code="INVALID_GRID")
    name, column = value.get("file"), value.get("column")
    if not isinstance(name, str) or not (column is None or isinstance(column, str)):
        raise ConfigError(f"{where} must be {{file = PATH, column = NAME}}", code="INVALID_GRID")
    path, suffix = folder / name, Path(name).suffix.lower()
    try:
        if suffix in (".jsonl", ".ndjson", ".txt"):
            return LineTable(path, column if suffix != ".txt" else None, text=suffix == ".txt", warn=warn)
        rows: Iterator[Json]
        if suffix == ".parquet":
            return _pick(iter(read_columns(path, column)), column, path, warn)
        if suffix == ".json":
            rows = iter(_json_list(path))
        elif suffix in (".csv", ".tsv"):
            rows = _csv_rows(path, "\t" if suffix == ".tsv" else ",")
        else:
            raise ConfigError(f"{where}: {name!r} is not one of {', '.join(TABLE_SUFFIXES)}", code="INVALID_GRID")
        return _pick(rows, column, path, warn)
    except (OSError, csv.Error, UnicodeDecodeError) as error:
        raise ConfigError(f"{where}: {path} cannot be read: {error}", code="INVALID_GRID") from error


class LineTable(Sequence[Json]):
    """The rows of a JSONL or text file, read on demand: only their offsets are kept in memory."""

    def __init__(self, path: Path, column: str | None, *, text: bool, warn: Warn) -> None:
        self._path = path
        self._column = column
        self._text = text
        self._stream = path.open("rb")
        weakref.finalize(self, self._stream.close)
        self._places = array("Q")
        self._index(warn)

    def _index(self, warn: Warn) -> None:
        left_out, seen, place = 0, 0, 0
        while line := self._stream.readline(MAX_ROW_BYTES):
            start, place = place, place + len(line)
            if len(line) == MAX_ROW_BYTES and not line.endswith(b"\n"):
                left_out += 1
                while line and not line.endswith(b"\n"):
                    line = self._stream.readline(MAX_ROW_BYTES)
                    place += len(line)
                continue
            if not line.strip():
                continue
            seen += 1
            if self._value(line) is None:
                left_out += 1
                if seen == 1:
                    _refuse_column(self._row(line), self._column, self._path)
            else:
                self._places.append(start)
        _warn_about(left_out, self._path, self._column, warn)

    def _row(self, line: bytes) -> Json:
        try:
            row: Json = json.loads(line)
        except (ValueError, RecursionError):
            return None
        return row

    def _value(self, line: bytes) -> Json:
        if self._text:
            return line.decode("utf-8-sig", "replace").rstrip("\r\n")
        return _cell(self._row(line), self._column)

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Json: ...
    @overload
    def __getitem__(self, index: slice) -> list[Json]: ...
    def __getitem__(self, index: int | slice) -> Json | list[Json]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        self._stream.seek(self._places[index])
        return self._value(self._stream.readline(MAX_ROW_BYTES))


def _csv_rows(path: Path, delimiter: str) -> Iterator[Json]:
    with path.open(encoding="utf-8-sig", newline="", errors="replace") as stream:
        for row in csv.DictReader(stream, delimiter=delimiter):
            yield {str(name): value for name, value in row.items() if isinstance(value, str)}


def _json_list(path: Path) -> list[Json]:
    try:
        value: object = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not JSON: {error}", code="INVALID_GRID") from error
    if not is_sequence(value):
        raise ConfigError(f"{path} must be a list of rows", code="INVALID_GRID")
    return [thaw(row) for row in value]


def _pick(rows: Iterator[Json], column: str | None, path: Path, warn: Warn) -> list[Json]:
    values: list[Json] = []
    left_out = 0
    for number, row in enumerate(rows):
        value = _cell(row, column)
        if value is None:
            left_out += 1
            if number == 0:
                _refuse_column(row, column, path)
        else:
            values.append(value)
    _warn_about(left_out, path, column, warn)
    return values


def _cell(row: Json, column: str | None) -> Json:
    if column is None:
        return row
    return thaw(row.get(column)) if is_mapping(row) else None


def _refuse_column(row: Json, column: str | None, path: Path) -> None:
    """Raise if the first row does not have the column: then the grid is wrong, not the row."""
    if column is None or not is_mapping(row) or column in row:
        return
    raise ConfigError(f"{path} has no column {column!r}{suggestion(column, list(row))}", code="INVALID_GRID")


def _warn_about(left_out: int, path: Path, column: str | None, warn: Warn) -> None:
    if left_out:
        what = f"no {column!r} or " if column else ""
        warn(f"{path}: {left_out} rows were left out: they have {what}nothing that can be read")


def suggestion(wrong: str, known: Sequence[str]) -> str:
    """Return a "did you mean" suggestion for the end of a message."""
    near = get_close_matches(wrong, known, n=1)
    return f": did you mean {near[0]!r}?" if near else f": there are {', '.join(known)}"
