"""The output folder of a batch: append-only parts, keys of finished records, a manifest.

Only one process writes. A part is a JSONL file; if a kill cuts off a line, the next run removes it. A Parquet part is
made from a finished JSONL part and replaces it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from tavernkit._values import JsonObject, is_object
from tavernkit.batching._parquet import copy_without, read_columns, read_keys, require_parquet, write_records
from tavernkit.batching._tasks import SCHEMA_VERSION, BatchFormat
from tavernkit.cards._json_text import dump_json
from tavernkit.errors import ConfigError

MANIFEST: Final = "manifest.json"
_KEY_FIELDS: Final = (b'{"key":"', b'{"custom_id":"')
_KEY_LENGTH: Final = 32
_SHARD: Final = re.compile(r"part-\d+of(\d+)-")


@dataclass(frozen=True, slots=True)
class PartLimits:
    """How large a part may grow."""

    records: int
    size: int


_LIMITS: Final[Mapping[str, PartLimits]] = {
    "jsonl": PartLimits(100_000, 1 << 30),
    "chat": PartLimits(100_000, 1 << 30),
    "parquet": PartLimits(10_000, 256 << 20),
    "openai-batch": PartLimits(50_000, 190 << 20),  # batch endpoints accept 50,000 requests and 200 MB
}


class OutputFolder:
    """Writes the records of one run; a context manager."""

    def __init__(
        self, folder: Path, form: BatchFormat, *, shard: int = 0, shards: int = 1, records_per_part: int | None = None
    ) -> None:
        """Open a folder; it is created if necessary.

        Args:
            folder: The folder.
            form: How records are written.
            shard: Which shard of the run writes, from 0.
            shards: How many shards there are; they can write into the same folder at the same time.
            records_per_part: Records in a file.
        """
        if form == "parquet":
            require_parquet()
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._shards = shards
        self._form: BatchFormat = form
        self._prefix = "part" if shards == 1 else f"part-{shard + 1}of{shards}"
        self._owned = "*" if shards == 1 else f"-{shard + 1}of{shards}-*"
        self.manifest_path = folder / (MANIFEST if shards == 1 else f"manifest-{shard + 1}of{shards}.json")
        limits = _LIMITS[form]
        self._limits = PartLimits(records_per_part or limits.records, limits.size)
        self._streams: dict[str, _Part] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def parts(self) -> list[Path]:
        """Return the finished and unfinished parts of this run's shard; of all shards if it is the only one."""
        patterns = (f"{stem}{self._owned}.{suffix}" for stem in ("part", "errors") for suffix in ("jsonl", "parquet"))
        return sorted(path for pattern in patterns for path in self.folder.glob(pattern))

    def refuse_used(self) -> None:
        """Raise if the folder already has records."""
        if self.parts():
            raise ConfigError(
                f"{self.folder} already has records: continue with --resume, or choose another folder",
                code="OUTPUT_EXISTS",
            )

    def refuse_other_shards(self) -> None:
        """Raise if a run with other shards has written here: its keys would be ignored."""
        for path in self.folder.glob("part-*"):
            shards = _SHARD.match(path.name)
            if self._shards > 1 and (shards is None or int(shards[1]) != self._shards):
                raise ConfigError(
                    f"{path} was not written with --shard …/{self._shards}: resume as before, or without --shard",
                    code="OTHER_SHARDS",
                )

    def refuse_other_format(self) -> None:
        """Raise if the folder was begun in another format."""
        found = self.read_manifest().get("format", self._form)
        if found != self._form:
            raise ConfigError(
                f"{self.folder} was begun with --format {found}: use the same format", code="OTHER_FORMAT"
            )

    def repair(self) -> set[int]:
        """Remove incomplete lines, and return the keys of all records in the folder."""
        keys: set[int] = set()
        for stem in ("part", "errors"):
            for path in self.folder.glob(f"{stem}{self._owned}.writing"):
                path.unlink(missing_ok=True)
        for path in self.parts():
            if path.suffix == ".parquet":
                keys.update(int(key, 16) for key in read_keys(path))
            elif path.with_suffix(
                ".parquet"
            ).exists():  # the process was killed between making one file and removing the other
                path.unlink()
            else:
                keys.update(int(key, 16) for key in _repaired_keys(path))
        return keys

    def write(self, line: bytes, *, error: bool = False) -> None:
        """Add a record.

        Args:
            line: The record, encoded.
            error: Write it to the file of errors, which formats for other programs have next to their parts.
        """
        kind = self._prefix.replace("part", "errors", 1) if error else self._prefix
        part = self._streams.get(kind)
        if part is None:
            part = self._streams[kind] = self._new_part(kind)
        part.stream.write(line)
        part.records += 1
        part.size += len(line)
        if part.records >= self._limits.records or part.size >= self._limits.size:
            self._finish(kind)

    def flush(self) -> None:
        """Hand everything to the operating system, so that a kill cannot lose it."""
        for part in self._streams.values():
            part.stream.flush()

    def close(self) -> None:
        """Finish the parts that are open."""
        for kind in list(self._streams):
            self._finish(kind)

    def finish_parts(self) -> None:
        """Convert JSONL parts left by an earlier run to their final format."""
        if self._form == "parquet":
            for path in self.parts():
                if path.suffix == ".jsonl":
                    self._to_parquet(path)

    def remove_stale(self, stale: set[int]) -> int:
        """Move records that are no longer in the grid to ``stale.jsonl``, and return their number."""
        moved = 0
        for path in self.parts() if stale else ():
            gone = [line for key, line in _lines_of(path) if int(key, 16) in stale]
            if not gone:
                continue
            with (self.folder / "stale.jsonl").open("ab") as stream:
                stream.writelines(gone)
            with _replacing(path) as temporary:
                if path.suffix == ".parquet":
                    copy_without(path, temporary, stale)
                else:
                    with temporary.open("wb") as target:
                        target.writelines(line for key, line in _lines_of(path) if int(key, 16) not in stale)
            moved += len(gone)
        return moved

    def read_manifest(self) -> JsonObject:
        """Return the manifest of the previous run; empty if there is none."""
        try:
            value: object = json.loads(self.manifest_path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        return value if is_object(value) else {}

    def write_manifest(self, manifest: JsonObject) -> None:
        """Write the manifest atomically."""
        with _replacing(self.manifest_path) as temporary:
            temporary.write_bytes(f"{dump_json(manifest, indent=2)}\n".encode())

    def _new_part(self, kind: str) -> _Part:
        taken = [path.stem.rpartition("-")[2] for path in self.folder.glob(f"{kind}-*") if path.suffix != ".writing"]
        number = max((int(each) for each in taken if each.isdigit()), default=-1) + 1
        path = self.folder / f"{kind}-{number:05d}.jsonl"
        return _Part(path, path.open("xb"))

    def _finish(self, kind: str) -> None:
        part = self._streams.pop(kind)
        part.stream.flush()
        os.fsync(part.stream.fileno())
        part.stream.close()
        if self._form == "parquet":
            self._to_parquet(part.path)

    def _to_parquet(self, path: Path) -> None:
        with path.open("rb") as stream:
            records = [json.loads(line) for line in stream]
        with _replacing(path.with_suffix(".parquet")) as temporary:
            write_records(temporary, records, SCHEMA_VERSION)
        path.unlink()


@dataclass(slots=True)
class _Part:
    path: Path
    stream: BinaryIO
    records: int = 0
    size: int = 0


@contextlib.contextmanager
def _replacing(path: Path) -> Generator[Path]:
    """Yield a file to write to, which replaces another one when it is complete."""
    temporary = path.with_name(f"{path.name}.writing")
    yield temporary
    with temporary.open("rb+") as stream:
        os.fsync(stream.fileno())
    temporary.replace(path)


def _repaired_keys(path: Path) -> Iterable[str]:
    with path.open("rb") as stream:
        found = [_key_of(line) for line in stream]
    keys = [key for key in found if key is not None]
    if not keys:
        path.unlink()
    elif len(keys) < len(found):
        with path.open("rb") as stream, _replacing(path) as temporary, temporary.open("wb") as target:
            target.writelines(line for line in stream if _key_of(line) is not None)
    return keys


def _key_of(line: bytes) -> str | None:
    """Return the key of a line, which is its first field; None if the line is incomplete."""
    if not line.endswith(b"}\n"):
        return None
    for field in _KEY_FIELDS:
        if line.startswith(field):
            key = line[len(field) : len(field) + _KEY_LENGTH]
            return key.decode("ascii", "replace")
    return None


def _lines_of(path: Path) -> Iterator[tuple[str, bytes]]:
    if path.suffix == ".parquet":
        for row in read_columns(path):
            assert isinstance(row, dict)
            yield str(row["key"]), json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        return
    with path.open("rb") as stream:
        for line in stream:
            key = _key_of(line)
            if key is not None:
                yield key, line
