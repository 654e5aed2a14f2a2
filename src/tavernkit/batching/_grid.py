"""The axes of a batch, and how they are combined."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from hashlib import blake2b
from itertools import islice
from math import prod
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from tavernkit._values import (
    EMPTY_OBJECT,
    FrozenObject,
    JsonObject,
    freeze_object,
    is_mapping,
    is_sequence,
    thaw,
    thaw_object,
)
from tavernkit.batching._sources import read_paths, read_table, suggestion
from tavernkit.batching._tasks import BuildOptions, FileRef, Keyed, Persona, Task, digest, task_key
from tavernkit.errors import ConfigError, Warn, log_warning

PLATFORMS: Final = ("silly_tavern", "risu_ai")
AXES: Final = ("platforms", "presets", "cards", "books", "personas", "chats", "options", "messages", "seeds")
"""The axes, slowest first: prompts with the same beginning follow each other, and files are read once."""
COMBINATIONS: Final = ("product", "zip")
KEYS: Final = (*AXES, "defaults", "combine", "zip", "sample", "sample_seed", "generate")
MAX_SEEDS: Final = 1_000_000_000

TaskT = TypeVar("TaskT", bound=Keyed)


@dataclass(frozen=True, slots=True)
class Dimension:
    """Axes that advance together, row by row; most dimensions have one axis."""

    axes: tuple[str, ...]
    columns: tuple[Sequence[object], ...]
    rows: Sequence[int]
    """The distinct rows: the same inputs make the same record."""
    duplicates: int = 0

    def values(self, position: int) -> tuple[object, ...]:
        """Return the values of a row; an axis with one value has it in every row."""
        row = self.rows[position]
        return tuple([column[row if len(column) > 1 else 0] for column in self.columns])


class Selection(NamedTuple):
    """Which part of a grid a run makes."""

    shard: int = 0
    shards: int = 1
    limit: int | None = None

    def of(self, tasks: Iterator[TaskT]) -> Iterator[TaskT]:
        """Yield the tasks of the selection. The key decides the shard, so insertions do not move records."""
        if self.shards > 1:
            tasks = (task for task in tasks if int(task.key[:12], 16) % self.shards == self.shard)
        return islice(tasks, self.limit)


EVERYTHING: Final = Selection()


class Grid:
    """Cards, books, presets, personas, platforms, chats, messages, seeds and options, and how they combine.

    >>> grid = Grid({"cards": ["aria.json"], "messages": ["Who are you?", "Who lit the lamp?"], "seeds": [1, 2]})
    >>> len(grid)
    4

    ``docs/guides/batch.md`` describes the keys; ``tavernkit batch --init`` writes a file with all of them.
    """

    def __init__(self, data: Mapping[str, object], *, folder: str | Path = ".", warn: Warn = log_warning) -> None:
        """Read a grid.

        Args:
            data: The grid, with the keys of a grid file.
            folder: Paths in the grid are relative to it.
            warn: Called with rows of tables that cannot be read.

        Raises:
            ConfigError: A key is unknown, or a value is invalid.
        """
        for key in data:
            if key not in KEYS:
                raise ConfigError(f"a grid has no {key!r}{suggestion(key, KEYS)}", code="INVALID_GRID")
        if not data.get("cards"):
            raise ConfigError("a grid needs cards", code="INVALID_GRID")
        self.folder = Path(folder).resolve()
        self.data: FrozenObject = freeze_object(_plain_object(data))
        reader = _Reader(self.folder, warn)
        defaults = reader.table(data.get("defaults", {}), "defaults")
        columns = {axis: reader.axis(axis, data.get(axis), defaults) for axis in AXES}
        self._dimensions = _dimensions(columns, data)
        self.generate: FrozenObject = freeze_object(reader.table(data.get("generate", {}), "generate"))
        self._sample = _whole(data, "sample", None)
        self._sample_seed = _whole(data, "sample_seed", 0)
        self._files: dict[str, FileRef] = {}

    @classmethod
    def load(cls, path: str | Path, *, warn: Warn = log_warning) -> Grid:
        """Read a grid file (TOML); paths in it are relative to its folder.

        Args:
            path: The file.
            warn: Called with rows of tables that cannot be read.

        Raises:
            ConfigError: The file cannot be read, or is not a grid.
        """
        path = Path(path)
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}", code="INVALID_GRID") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ConfigError(f"{path} is not TOML: {error}", code="INVALID_GRID") from error
        try:
            return cls(data, folder=path.parent, warn=warn)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}", code=error.code) from error

    def __len__(self) -> int:
        """How many records there are, without sharding."""
        return self._total if self._sample is None else min(self._sample, self._total)

    @property
    def _total(self) -> int:
        return prod(len(dimension.rows) for dimension in self._dimensions)

    @property
    def sizes(self) -> dict[str, int]:
        """How many values each axis has."""
        return {
            axis: len(column)
            for dimension in self._dimensions
            for axis, column in zip(dimension.axes, dimension.columns, strict=True)
        }

    @property
    def duplicates(self) -> int:
        """How many rows were left out as duplicates."""
        return sum(dimension.duplicates for dimension in self._dimensions)

    @property
    def files(self) -> Mapping[str, FileRef]:
        """The files that tasks have used so far, with the hashes of their content."""
        return self._files

    def describe(self) -> JsonObject:
        """Return the grid for a manifest, with the size of each axis."""
        return {"grid": thaw_object(self.data), "sizes": {**self.sizes}}

    def tasks(self, selection: Selection = EVERYTHING, *, salt: Mapping[str, object] | None = None) -> Iterator[Task]:
        """Go through the combinations in a fixed order.

        Args:
            selection: The part to return.
            salt: What else distinguishes records, such as the model that answers.
        """
        return selection.of(self._all_tasks(digest(thaw_object(salt or {}))))

    def _all_tasks(self, salt: bytes) -> Iterator[Task]:
        lengths = [len(dimension.rows) for dimension in self._dimensions]
        before: list[int] = [-1] * len(lengths)
        inputs: dict[str, object] = {}
        digests: dict[str, bytes] = {}
        for index in self._indices():
            for number in range(len(lengths) - 1, -1, -1):
                index, position = divmod(index, lengths[number])
                if position == before[number]:
                    continue
                before[number] = position
                dimension = self._dimensions[number]
                for axis, value in zip(dimension.axes, dimension.values(position), strict=True):
                    inputs[axis], digests[axis] = self._resolve(axis, value)
            yield Task(task_key(salt, [digests[axis] for axis in AXES]), *[inputs[axis] for axis in AXES])  # pyright: ignore[reportArgumentType]  # what each axis holds

    def _indices(self) -> Iterator[int]:
        """Yield the selected combinations, in order.

        A sample picks one at random from each of N stretches of equal length: all combinations are equally likely, the
        order is that of the grid, and no state is needed.
        """
        total, count = self._total, len(self)
        if count == total:
            yield from range(total)
            return
        seed = str(self._sample_seed).encode()
        for number in range(count):
            start, end = number * total // count, (number + 1) * total // count
            drawn = int.from_bytes(blake2b(b"%b/%d" % (seed, number), digest_size=8).digest(), "big")
            yield start + drawn % (end - start)

    def _resolve(self, axis: str, value: object) -> tuple[object, bytes]:
        """Return the value that tasks contain, and what it adds to their keys: for files, name and content."""
        if axis in ("presets", "cards", "chats"):
            file = self._file(value) if isinstance(value, str) and value else None
            return file, b"-" * 16 if file is None else file.key
        if axis == "books":
            assert is_sequence(value)
            files = tuple(self._file(str(name)) for name in value)
            return files, blake2b(b"".join(file.key for file in files), digest_size=16).digest()
        if isinstance(value, BuildOptions):
            files = tuple(self._file(name) for name in value.file_names())
            mixed = digest(value.to_dict()) + b"".join(file.key for file in files)
            return value.with_files(files), blake2b(mixed, digest_size=16).digest()
        if axis == "messages" and not isinstance(value, str):
            value = json.dumps(value, ensure_ascii=False)
        return value, digest(_comparable(value))

    def _file(self, name: str) -> FileRef:
        found = self._files.get(name)
        if found is None:
            found = self._files[name] = FileRef.read(self.folder, name)
        return found


class _Reader:
    """Reads the values of a grid."""

    def __init__(self, folder: Path, warn: Warn) -> None:
        self.folder = folder
        self.warn = warn

    def axis(self, name: str, value: object, defaults: Mapping[str, object]) -> Sequence[object]:
        """Read the values of an axis; an axis that is not in the grid has a single value."""
        if name == "options":
            listed: Sequence[object] = (EMPTY_OBJECT,) if value is None else self.listed(value, name)
            return [BuildOptions.read(each, defaults, name) for each in listed]
        if value is None:
            return (_ABSENT[name],)
        if name == "books":
            return self.books(value)
        if name in ("cards", "presets", "chats"):
            paths = self.strings(value, name) if is_mapping(value) else read_paths(value, self.folder, name, self.warn)
            if name == "cards" and "" in paths:
                raise ConfigError("cards: every prompt needs a card, '' is none", code="INVALID_GRID")
            return _not_empty(paths, name)
        return _not_empty(_READERS[name](self, value), name)

    def books(self, value: object) -> Sequence[object]:
        """Read sets of books: a nested list uses several books at once, an empty one none."""
        if is_mapping(value):
            return [(name,) if name else () for name in self.strings(value, "books")]
        sets: list[object] = []
        for each in value if is_sequence(value) else (value,):
            if is_sequence(each):
                sets.append(tuple(read_paths(each, self.folder, "books", self.warn)))
            else:
                sets += [(path,) if path else () for path in read_paths(each, self.folder, "books", self.warn)]
        return _not_empty(sets, "books")

    def platforms(self, value: object) -> Sequence[object]:
        """Read names of platforms."""
        names = self.strings(value, "platforms")
        for name in names:
            if name not in PLATFORMS:
                raise ConfigError(f"no platform {name!r}{suggestion(name, PLATFORMS)}", code="INVALID_GRID")
        return names

    def personas(self, value: object) -> Sequence[object]:
        """Read personas: names, or objects with a name and a description."""
        return [Persona.read(each) for each in self.listed(value, "personas")]

    def messages(self, value: object) -> Sequence[object]:
        """Read texts; a file of a million lines is not loaded into memory."""
        if is_mapping(value):
            return read_table(value, self.folder, "messages", self.warn)
        return self.strings(value, "messages")

    def seeds(self, value: object) -> Sequence[object]:
        """Read numbers or texts, or ``{start = 1, count = 100}``."""
        if is_mapping(value) and "count" in value:
            for key in value:
                if key not in ("start", "count"):
                    raise ConfigError(f"seeds has no {key!r}{suggestion(key, ('start', 'count'))}", code="INVALID_GRID")
            start, count = _whole(value, "start", 0), _whole(value, "count", 1)
            assert start is not None
            assert count is not None
            if not 0 < count <= MAX_SEEDS:
                raise ConfigError(f"seeds: count must be 1 to {MAX_SEEDS}", code="INVALID_GRID")
            return range(start, start + count)
        seeds = self.listed(value, "seeds")
        for seed in seeds:
            if isinstance(seed, bool) or not isinstance(seed, (int, str)):
                raise ConfigError(f"seeds must be numbers or texts, not {seed!r}", code="INVALID_GRID")
        return seeds

    def strings(self, value: object, where: str) -> list[str]:
        """Read texts."""
        texts = self.listed(value, where)
        for text in texts:
            if not isinstance(text, str):
                raise ConfigError(f"{where} must be texts, not {text!r}", code="INVALID_GRID")
        return [str(text) for text in texts]

    def listed(self, value: object, where: str) -> Sequence[object]:
        """Read a list, a table's rows, or one value."""
        if is_mapping(value) and "file" in value:
            return read_table(value, self.folder, where, self.warn)
        return value if is_sequence(value) else (value,)

    def table(self, value: object, where: str) -> Mapping[str, object]:
        """Read an object."""
        if not is_mapping(value):
            raise ConfigError(f"{where} must be a table", code="INVALID_GRID")
        return value


_READERS: Final[Mapping[str, Callable[[_Reader, object], Sequence[object]]]] = {
    "platforms": _Reader.platforms,
    "personas": _Reader.personas,
    "messages": _Reader.messages,
    "seeds": _Reader.seeds,
}
_ABSENT: Final[Mapping[str, object]] = {
    "platforms": PLATFORMS[0],
    "presets": "",
    "books": (),
    "personas": Persona(),
    "chats": "",
    "messages": "",
    "seeds": 0,
}


def _dimensions(columns: Mapping[str, Sequence[object]], data: Mapping[str, object]) -> list[Dimension]:
    combine = data.get("combine", COMBINATIONS[0])
    if combine not in COMBINATIONS:
        raise ConfigError(f"combine must be product or zip, not {combine!r}", code="INVALID_GRID")
    groups = data.get("zip", ())
    if combine == "zip":
        if groups:
            raise ConfigError('zip lists axes that go together in a product: leave it out with combine = "zip"')
        groups = (AXES,)
    if not is_sequence(groups) or not all(is_sequence(group) for group in groups):
        raise ConfigError('zip must be lists of axes: zip = [["chats", "messages"]]', code="INVALID_GRID")
    taken: dict[str, tuple[str, ...]] = {}
    for group in groups:
        names = tuple(str(name) for name in (group if is_sequence(group) else ()))
        for name in names:
            if name not in AXES:
                raise ConfigError(f"zip: no axis {name!r}{suggestion(name, AXES)}", code="INVALID_GRID")
            if name in taken:
                raise ConfigError(f"zip names {name!r} twice", code="INVALID_GRID")
            taken[name] = names
    dimensions: list[Dimension] = []
    for axis in AXES:
        names = taken.get(axis, (axis,))
        if axis == min(names, key=AXES.index):  # the position of the slowest of them
            dimensions.append(_dimension(names, tuple(columns[name] for name in names)))
    return dimensions


def _dimension(axes: tuple[str, ...], columns: tuple[Sequence[object], ...]) -> Dimension:
    lengths = {axis: len(column) for axis, column in zip(axes, columns, strict=True) if len(column) != 1}
    if len(set(lengths.values())) > 1:
        lengths_shown = ", ".join(f"{axis} {length}" for axis, length in lengths.items())
        raise ConfigError(f"zipped axes must have the same number of values: {lengths_shown}", code="INVALID_GRID")
    length = max(lengths.values(), default=1)
    every = Dimension(axes, columns, range(length))
    if any(isinstance(column, range) and len(column) == length for column in columns):
        return every  # no two rows have the same number
    seen: set[bytes] = set()
    rows: list[int] = []
    for position in range(length):
        row = digest([_comparable(value) for value in every.values(position)])
        if row not in seen:
            seen.add(row)
            rows.append(position)
    return Dimension(axes, columns, every.rows if len(rows) == length else rows, length - len(rows))


def _comparable(value: object) -> object:
    return value.to_dict() if isinstance(value, (Persona, BuildOptions)) else value


def _not_empty(values: Sequence[object], where: str) -> Sequence[object]:
    if not values:
        raise ConfigError(f"{where} has no value: leave it out, or name one", code="INVALID_GRID")
    return values


def _whole(data: Mapping[str, object], key: str, default: int | None) -> int | None:
    value = data.get(key)
    value = default if value is None else value
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise ConfigError(f"{key} must be a whole number, not {value!r}", code="INVALID_GRID")
    return value


def _plain_object(data: Mapping[str, object]) -> JsonObject:
    """Return a grid as JSON: TOML also has dates."""
    return json.loads(json.dumps(thaw(data), default=_plain))


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return (value if value.tzinfo is not None else value.replace(tzinfo=UTC)).isoformat()
    return value.isoformat() if isinstance(value, date) else str(value)
