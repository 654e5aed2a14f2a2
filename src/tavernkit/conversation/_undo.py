"""What can be undone: for each operation, how to get from the chat after it back to the one before."""

from __future__ import annotations

import hashlib
import json
import re
from collections import deque
from collections.abc import Mapping
from typing import Final

from tavernkit._turns import Chat
from tavernkit._values import Json, JsonObject, is_list, is_object, same_start

UNDO_LIMIT: Final = 50
"""How many operations can be undone."""
MAX_UNDO_CHARACTERS: Final = 4_000_000
"""How much is kept for it; the oldest operations are forgotten first."""

KNOWN_DIGESTS: Final = 3
"""Of how many snapshots the digest is remembered: the one before an operation, the one after it, and one between."""

UNDO: Final = "undo"
"""The key of what can be undone in the state of a saved chat."""
IN_THE_FILE: Final = frozenset(("chat_id", "header", "chat_metadata", "lines", "chat"))
"""Parts of snapshots that are in the chat's file."""

_SEEN: Final = frozenset(("chat_metadata", "lines", "chat"))
"""Parts that are the same when a chat was saved and opened again."""

_WHOLE: Final = re.compile(r"(?<=\d)\.0(?=[,}\]])")
"""Saves have floats in the place of whole numbers."""

_VALUE, _KEYS, _GONE, _KEEP, _REST = "value", "keys", "gone", "keep", "rest"


class UndoHistory:
    """The operations that can be undone, newest last.

    An operation is kept as a patch, which is small however long the chat is. A history that was saved is taken up again
    only if the chat is as it was then: another program may have gone on with it.
    """

    def __init__(self, limit: int = UNDO_LIMIT) -> None:
        self.limit = limit
        self._patches: deque[tuple[JsonObject, int]] = deque(maxlen=limit)
        self._latest: JsonObject | None = None
        """The chat after the newest operation."""
        self._before: JsonObject | None = None
        """The chat before the operation that runs."""
        self._lines: tuple[tuple[Json, ...], list[bytes]] = ((), [])
        """The lines of the last snapshot, and their digests."""
        self._digests: deque[tuple[Mapping[str, Json], str]] = deque(maxlen=KNOWN_DIGESTS)

    def __len__(self) -> int:
        return len(self._patches)

    def begin(self, before: JsonObject) -> None:
        """Begin an operation; a chat that is saved before its end can be brought back to its beginning.

        Args:
            before: The snapshot before it.
        """
        self._before = before

    def end(self, after: JsonObject) -> None:
        """Remember the operation that was begun, if it has changed something.

        Args:
            after: The snapshot after it.
        """
        before, self._before = self._before, None
        if not self.limit or before is None or after == before:
            return
        if self._patches and self._latest is not None and self._latest != before:
            # The application changed the chat itself meanwhile: undoing the operation before this one undoes that too.
            older = _patched(self._latest, self._patches.pop()[0])
            assert is_object(older)
            self._patches.append(_sized(_snapshot_patch(before, older)))
        self._patches.append(_sized(_snapshot_patch(after, before)))
        self._latest = after
        while sum(size for _, size in self._patches) > MAX_UNDO_CHARACTERS:
            self._patches.popleft()

    def take(self) -> JsonObject | None:
        """Forget the newest operation and return the snapshot before it; None if there is none."""
        if not self._patches or self._latest is None:
            return None
        patch, _ = self._patches.pop()
        found = _patched(self._latest, patch)
        self._latest = found if is_object(found) else None
        return self._latest

    def to_json(self, snapshot: Mapping[str, Json]) -> JsonObject:
        """Write the history for a store; nothing if there is none.

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
        """Return the digest of a snapshot; comparing it with those before it is quicker than making it again."""
        for known, digest in self._digests:
            if known is snapshot or all(known.get(key) == snapshot.get(key) for key in _SEEN):
                return digest
        digest = self._made_digest(snapshot)
        self._digests.append((snapshot, digest))
        return digest

    def _made_digest(self, snapshot: Mapping[str, Json]) -> str:
        """Return what says whether a chat is as it was: a digest of messages and what belongs to them."""
        seen = {key: _filled(value) for key, value in snapshot.items() if key in _SEEN}
        lines, chat = seen.pop("lines", None), seen.get("chat")
        if is_object(chat):
            lines = chat.pop("message", None)  # of a copy
        digest = hashlib.sha256(_written(seen))
        if is_list(lines):
            # Snapshots share lines that are the same, so that only new ones have to be written.
            known, digests = self._lines
            same = same_start(known, tuple(lines))
            digests = [*digests[:same], *(hashlib.sha256(_written(line)).digest() for line in lines[same:])]
            self._lines = tuple(lines), digests
            digest.update(b"".join(digests))
        return digest.hexdigest()

    def load(self, saved: Json, chat: Chat) -> None:
        """Take up a history that was saved with a chat, if the chat is still the same.

        Args:
            saved: What ``to_json()`` wrote.
            chat: The chat that was opened.
        """
        patches = saved.get("patches") if is_object(saved) else None
        snapshot = chat.snapshot()
        if not is_object(saved) or not is_list(patches) or saved.get("chat") != self._digest(snapshot):
            return
        self._patches.extend(_sized(patch) for patch in patches if is_object(patch))
        self._latest = snapshot


def _written(value: Json) -> bytes:
    return _WHOLE.sub("", json.dumps(value, sort_keys=True)).encode()


def _filled(value: Json) -> Json:
    """An object without its empty places, which reading a file may add."""
    return {key: each for key, each in value.items() if each not in ({}, [], None)} if is_object(value) else value


def _snapshot_patch(new: JsonObject, old: JsonObject) -> JsonObject:
    """What makes the old snapshot of the new one; other parts than these are whole."""
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
        same = same_start(tuple(new), tuple(old))
        return {_KEEP: same, _REST: old[same:]}
    return {_VALUE: old}


def _patched(value: Json, patch: Json) -> Json:
    """Apply a patch; the value stays as it is."""
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
