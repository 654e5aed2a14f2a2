"""The undo history: for each operation, a patch from the chat after it to the chat before it."""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from tavernkit._arguments import require
from tavernkit._turns import Chat
from tavernkit._values import Json, JsonObject, is_list, is_object, same_start
from tavernkit.errors import ConfigError

UNDO_LIMIT: Final = 50
"""How many operations can be undone."""
MAX_UNDO_CHARACTERS: Final = 4_000_000
"""The maximum size of the history; the oldest operations are dropped first."""

KNOWN_DIGESTS: Final = 3
"""How many digests of snapshots are cached: before an operation, after it, and one in between."""

UNDO: Final = "undo"
"""The key of the undo history in the state of a saved chat."""
IN_THE_FILE: Final = frozenset(("chat_id", "header", "chat_metadata", "lines", "chat"))
"""Parts of snapshots that are in the chat's file."""

_OPEN_PARTS: Final = 32
"""How many of the last parts of a digest may still change: turns change no others."""

_SEEN: Final = frozenset(("chat_metadata", "lines", "chat"))
"""Parts that stay the same when a chat is saved and opened again."""

_WHOLE: Final = re.compile(r"(?<=\d)\.0(?=[,}\]])")
"""Saves contain floats instead of whole numbers."""

_VALUE, _KEYS, _GONE, _KEEP, _REST = "value", "keys", "gone", "keep", "rest"


class GrowingDigest:
    """The SHA-256 of parts put together, of which there are more each time: the first ones are hashed once."""

    def __init__(self) -> None:
        self._count = 0
        self._hash = hashlib.sha256()

    def of(self, parts: Sequence[bytes], same: int) -> str:
        """Return the digest of some parts.

        Args:
            parts: The parts.
            same: How many of the first ones are those of the call before.
        """
        if not same >= self._count >= len(parts) - 2 * _OPEN_PARTS:
            self._count = max(len(parts) - _OPEN_PARTS, 0)
            self._hash = hashlib.sha256(b"".join(parts[: self._count]))
        found = self._hash.copy()
        found.update(b"".join(parts[self._count :]))
        return found.hexdigest()


class FileDigest:
    """The digest of a chat's file: that of the first line, and that of the others."""

    def __init__(self) -> None:
        self._start: bytes = b""
        self._most: bytes = b""
        """The largest part of the last file, after the start."""
        self._hashes = _LineHashes()
        """The hashes up to the end of that part."""

    def of(self, parts: Sequence[bytes]) -> str:
        """Return the digest of a file; a large part that was in the last file too is not hashed again.

        Args:
            parts: The content of the file.
        """
        most = max(parts, key=len, default=b"")
        place = next((number for number, part in enumerate(parts) if part is most), 0)
        start = b"".join(parts[:place])
        if most is not self._most or start != self._start:
            if start != self._start or not most.startswith(self._most):
                self._start, self._most, self._hashes = start, b"", _LineHashes()
                self._hashes.update(start)
            self._hashes.update(most[len(self._most) :])
            self._most = most
        found = copy.copy(self._hashes)
        found.update(b"".join(parts[place + 1 :]))
        return found.hexdigest()


class _LineHashes:
    """Hashes the first line of a text, and the others; a text of one line has no first one."""

    def __init__(self) -> None:
        self._first, self._rest = hashlib.sha256(), hashlib.sha256()
        self._ended = False

    def __copy__(self) -> _LineHashes:
        twin = _LineHashes()
        twin._first, twin._rest, twin._ended = self._first.copy(), self._rest.copy(), self._ended
        return twin

    def update(self, data: bytes) -> None:
        """Add data."""
        if not self._ended:
            end = data.find(b"\n") + 1
            self._first.update(memoryview(data)[: end or None])
            if not end:
                return
            self._ended, data = True, data[end:]
        self._rest.update(data)

    def hexdigest(self) -> str:
        """Return both digests."""
        first, rest = (self._first, self._rest) if self._ended else (self._rest, self._first)
        return first.hexdigest() + rest.hexdigest()


class UndoHistory:
    """The operations that can be undone, newest last.

    An operation is kept as a patch, which is small even for a long chat. A saved history is used only if the chat is
    unchanged, because another program may have continued it.
    """

    def __init__(self, limit: int = UNDO_LIMIT) -> None:
        require("undo_limit", limit, int)
        if limit < 0:
            raise ConfigError(f"undo_limit must be 0 or more, not {limit}")
        self.limit = limit
        self._patches: deque[tuple[JsonObject, int]] = deque(maxlen=limit)
        self._latest: JsonObject | None = None
        """The chat after the newest operation."""
        self._before: JsonObject | None = None
        """The chat before the operation that runs."""
        self._lines: list[Json] = []
        """The lines of the last snapshot."""
        self._line_digests: list[bytes] = []
        self._lines_digest = GrowingDigest()
        self.file_digest = FileDigest()
        """Makes the digest of the chat's file."""
        self._digests: deque[tuple[Mapping[str, Json], str]] = deque(maxlen=KNOWN_DIGESTS)

    def __len__(self) -> int:
        return len(self._patches)

    def begin(self, before: JsonObject) -> None:
        """Begin an operation; a chat that is saved in the middle of it can still be restored.

        Args:
            before: The snapshot before it.
        """
        self._before = before

    def end(self, after: JsonObject) -> None:
        """Record the current operation, if it has changed something.

        Args:
            after: The snapshot after it.
        """
        before, self._before = self._before, None
        if not self.limit or before is None or after == before:
            return
        self.rebase(before)  # the application itself may have changed the chat in between
        self._patches.append(_sized(_snapshot_patch(after, before)))
        self._latest = after
        while sum(size for _, size in self._patches) > MAX_UNDO_CHARACTERS:
            self._patches.popleft()

    def rebase(self, now: JsonObject) -> None:
        """Take in changes that were no operation: undoing the newest operation undoes them too.

        Args:
            now: The snapshot after them.
        """
        if self._patches and self._latest is not None and self._latest != now:
            older = _patched(self._latest, self._patches.pop()[0])
            assert is_object(older)
            self._patches.append(_sized(_snapshot_patch(now, older)))
            self._latest = now

    def take(self) -> JsonObject | None:
        """Remove the newest operation and return the snapshot before it; None if there is none."""
        if not self._patches or self._latest is None:
            return None
        patch, _ = self._patches.pop()
        found = _patched(self._latest, patch)
        self._latest = found if is_object(found) else None
        return self._latest

    def to_json(self, snapshot: Mapping[str, Json]) -> JsonObject:
        """Return the history as JSON for a store; None if it is empty.

        Args:
            snapshot: The chat that is saved with it.
        """
        now = self._digest(snapshot)
        base = self._latest if self._before is None else self._before
        patches: list[Json] = []
        if self._latest is not None and base is not None and self._digest(self._latest) == self._digest(base):
            patches += [patch for patch, _ in self._patches]
        if self._before is not None and self.limit and now != self._digest(self._before):
            patches.append(_snapshot_patch({**snapshot}, self._before))
        elif base is None or now != self._digest(base):
            return {}
        return {"chat": now, "patches": patches[-self.limit :]} if patches else {}

    def _digest(self, snapshot: Mapping[str, Json]) -> str:
        """Return the digest of a snapshot; comparing it with earlier ones is faster than computing it again."""
        for known, digest in self._digests:
            if known is snapshot or all(_is_same(known.get(key), snapshot.get(key)) for key in _SEEN):
                return digest
        digest = self._made_digest(snapshot)
        self._digests.append((snapshot, digest))
        return digest

    def _made_digest(self, snapshot: Mapping[str, Json]) -> str:
        """Return a digest of messages and related data, which shows whether a chat has changed."""
        seen = {key: _filled(value) for key, value in snapshot.items() if key in _SEEN}
        lines, chat = seen.pop("lines", None), seen.get("chat")
        if is_object(chat):
            lines = chat.pop("message", None)  # of a copy
        digest = hashlib.sha256(_written(seen))
        if is_list(lines):
            # Snapshots share unchanged lines, so only new ones must be written.
            same = same_start(self._lines, lines)
            self._lines = lines
            self._line_digests[same:] = [hashlib.sha256(_written(line)).digest() for line in lines[same:]]
            digest.update(self._lines_digest.of(self._line_digests, same).encode())
        return digest.hexdigest()

    def load(self, saved: Json, chat: Chat) -> None:
        """Load the history that was saved with a chat, if the chat is still the same.

        Args:
            saved: The output of ``to_json()``.
            chat: The chat that was opened.
        """
        patches = saved.get("patches") if is_object(saved) else None
        snapshot = chat.snapshot()
        if not is_object(saved) or not is_list(patches) or saved.get("chat") != self._digest(snapshot):
            return
        self._patches.extend(_sized(patch) for patch in patches if is_object(patch))
        self._latest = snapshot


def _is_same(left: Json, right: Json) -> bool:
    return left is right or left == right  # snapshots share long lists


def _written(value: Json) -> bytes:
    return _WHOLE.sub("", json.dumps(value, sort_keys=True)).encode()


def _filled(value: Json) -> Json:
    """Return an object without empty fields, which reading a file may add."""
    return {key: each for key, each in value.items() if each not in ({}, [], None)} if is_object(value) else value


def _snapshot_patch(new: JsonObject, old: JsonObject) -> JsonObject:
    """Return a patch from the new snapshot to the old one."""
    keys: JsonObject = {}
    for key, value in old.items():
        if key not in new or new[key] != value:
            keys[key] = _patch(new.get(key), value) if key in _SEEN else {_VALUE: value}
    return {_KEYS: keys, _GONE: [key for key in new if key not in old]}


def _patch(new: Json, old: Json) -> Json:
    if is_object(new) and is_object(old):
        keys: JsonObject = {
            key: _patch(new[key], value) if key in new else {_VALUE: value}
            for key, value in old.items()
            if key not in new or new[key] != value
        }
        return {_KEYS: keys, _GONE: [key for key in new if key not in old]}
    if is_list(new) and is_list(old):
        same = same_start(new, old)
        return {_KEEP: same, _REST: old[same:]}
    return {_VALUE: old}


def _patched(value: Json, patch: Json) -> Json:
    """Apply a patch to a copy of a value."""
    if not is_object(patch):
        return value
    if _VALUE in patch:
        return patch[_VALUE]
    keep, rest = patch.get(_KEEP), patch.get(_REST)
    if isinstance(keep, int) and is_list(rest):
        return [*(value[:keep] if is_list(value) else ()), *rest]
    keys, gone = patch.get(_KEYS), patch.get(_GONE)
    found: JsonObject = {**value} if is_object(value) else {}
    for key in gone if is_list(gone) else ():
        found.pop(str(key), None)
    for key, each in keys.items() if is_object(keys) else ():
        found[key] = _patched(found.get(key), each)
    return found


def _sized(patch: JsonObject) -> tuple[JsonObject, int]:
    return patch, len(json.dumps(patch))
