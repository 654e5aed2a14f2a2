"""Parquet files, through pyarrow (the extra ``parquet``)."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, cast

from tavernkit._values import Json, JsonObject, is_mapping, is_sequence
from tavernkit.errors import ConfigError

INSTALL_HINT: Final = "Parquet needs pyarrow: pip install 'tavernkit[parquet]'"


class _Table(Protocol):
    """The part of a pyarrow table that is used."""

    def to_pylist(self) -> list[JsonObject]: ...
    def filter(self, mask: object) -> _Table: ...


class _Arrow(Protocol):
    """The part of pyarrow that is used; it may be missing, and has no types."""

    def array(self, values: Sequence[object]) -> object: ...
    def schema(self, fields: Sequence[tuple[str, object]], *, metadata: Mapping[str, str]) -> object: ...
    def struct(self, fields: Sequence[tuple[str, object]]) -> object: ...
    def list_(self, item: object) -> object: ...
    def string(self) -> object: ...
    def int64(self) -> object: ...
    def float64(self) -> object: ...

    class Table:
        @staticmethod
        def from_pylist(rows: Sequence[Mapping[str, object]], schema: object) -> _Table: ...


class _Files(Protocol):
    """The part of ``pyarrow.parquet`` that is used."""

    def read_table(self, path: str, *, columns: Sequence[str] | None = None) -> _Table: ...
    def read_schema(self, path: str) -> object: ...
    def write_table(self, table: _Table, path: str, *, compression: str) -> None: ...


def _packages() -> tuple[_Arrow, _Files]:
    try:
        return cast("_Arrow", import_module("pyarrow")), cast("_Files", import_module("pyarrow.parquet"))
    except ModuleNotFoundError as error:
        raise ConfigError(INSTALL_HINT, code="EXTRA_MISSING") from error


def require_parquet() -> None:
    """Raise ConfigError if pyarrow is not installed."""
    _packages()


def read_columns(path: Path, column: str | None = None) -> Iterable[Json]:
    """Return the rows of a file as objects, with one column or all."""
    _, files = _packages()
    try:
        names = [str(name) for name in cast("Iterable[object]", getattr(files.read_schema(str(path)), "names"))]  # noqa: B009  # no types
        wanted = [column] if column in names else None
        return cast("list[Json]", files.read_table(str(path), columns=wanted).to_pylist())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", code="INVALID_GRID") from error


def read_keys(path: Path) -> Iterable[str]:
    """Return the keys of the records in a file."""
    _, files = _packages()
    return [str(row["key"]) for row in files.read_table(str(path), columns=["key"]).to_pylist()]


def copy_without(path: Path, target: Path, keys: Container[int]) -> None:
    """Copy a file of records without some of them.

    Args:
        path: The file.
        target: The copy.
        keys: The keys of the records that are left out, as numbers.
    """
    arrow, files = _packages()
    table = files.read_table(str(path))
    kept = [int(str(key), 16) not in keys for key in read_keys(path)]
    files.write_table(table.filter(arrow.array(kept)), str(target), compression="zstd")


def write_records(path: Path, records: Sequence[JsonObject], schema_version: int) -> None:
    """Write records to a file; see ``docs/guides/batch.md`` for the columns.

    Args:
        path: The file.
        records: Records as they are in JSONL.
        schema_version: The version of their schema; it is kept in the file's metadata.
    """
    arrow, files = _packages()
    text, whole = arrow.string(), arrow.int64()
    message = arrow.struct([("role", text), ("content", text), ("name", text)])
    schema = arrow.schema(
        [
            ("key", text),
            ("platform", text),
            ("card", text),
            ("inputs", text),
            ("messages", arrow.list_(message)),
            ("prompt", text),
            ("tokens", whole),
            ("fingerprint", text),
            ("omitted", whole),
            ("omissions", text),
            ("warnings", arrow.list_(text)),
            ("error", text),
            ("model", text),
            ("reply", text),
            ("finish_reason", text),
            ("usage", text),
            ("latency_ms", arrow.float64()),
        ],
        metadata={"tavernkit.schema": str(schema_version)},
    )
    rows = [_row(record) for record in records]
    try:
        table = arrow.Table.from_pylist(rows, schema)
    except UnicodeEncodeError:  # a lone surrogate, which Parquet cannot store
        table = arrow.Table.from_pylist([cast("dict[str, object]", _whole_characters(row)) for row in rows], schema)
    files.write_table(table, str(path), compression="zstd")


_AS_JSON: Final = ("inputs", "omissions", "error", "usage")
"""Columns without a fixed type, stored as JSON texts."""


def _row(record: JsonObject) -> dict[str, object]:
    inputs = record.get("inputs")
    named = cast("JsonObject", inputs) if isinstance(inputs, dict) else {}
    row: dict[str, object] = {**record, "platform": named.get("platform"), "card": named.get("card")}
    for name in _AS_JSON:
        row[name] = None if record.get(name) is None else json.dumps(record[name], ensure_ascii=False)
    messages = record.get("messages")
    row["messages"] = [_message(each) for each in messages] if isinstance(messages, list) else None
    reply = record.get("reply")
    row["reply"] = reply.get("content") if isinstance(reply, dict) else None
    return row


def _whole_characters(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if is_mapping(value):
        return {name: _whole_characters(item) for name, item in value.items()}
    return [_whole_characters(item) for item in value] if is_sequence(value) else value


def _message(message: Json) -> dict[str, object]:
    fields = message if isinstance(message, dict) else {}
    content, name = fields.get("content"), fields.get("name")
    return {
        "role": str(fields.get("role")),
        "content": content if isinstance(content, str) else json.dumps(content, ensure_ascii=False),
        "name": name if isinstance(name, str) else None,
    }
