"""What an operation changed in a chat."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from tavernkit._dataclass import dataclass
from tavernkit._values import Json, JsonObject, is_list, is_object, same_start


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What an operation changed in a chat: its lines, and everything else that prompts depend on."""

    start: int = 0
    """The index of the first line that is new or different."""
    removed: tuple[Json, ...] = ()
    """The lines from there on, as they were before."""
    lines: tuple[Json, ...] = ()
    """The lines from there on, as they are now, in the platform's own format."""
    state: JsonObject
    """Everything else that changed, with JSON pointers into snapshots: ``/chat_metadata/variables/mood``,
    ``/global_variables/day``, ``/chat/scriptstate/$mood``. None stands for what is gone."""


def changes_between(before: JsonObject, after: JsonObject) -> Changes:
    """Return the changes between two snapshots of a chat.

    Args:
        before: The older snapshot.
        after: The newer one.
    """
    old, new = _lines(before), _lines(after)
    start = same_start(old, new)
    return Changes(
        start=start,
        removed=tuple(copy.deepcopy(old[start:])),
        lines=tuple(copy.deepcopy(new[start:])),
        state={path: copy.deepcopy(value) for path, value in _differences(before, after, "")},
    )


def _lines(snapshot: JsonObject) -> list[Json]:
    """Return the lines of a snapshot: SillyTavern's are at the top, RisuAI's inside the chat."""
    chat = snapshot.get("chat")
    lines = chat.get("message") if is_object(chat) else snapshot.get("lines")
    return lines if is_list(lines) else []


def _differences(before: JsonObject, after: JsonObject, path: str) -> Iterator[tuple[str, Json]]:
    for key in dict.fromkeys((*before, *after)):
        place = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
        if place in ("/lines", "/chat/message"):
            continue
        old, new = before.get(key), after.get(key)
        if old is new or (old == new and type(old) is type(new)):
            continue
        if (old is None or is_object(old)) and (new is None or is_object(new)):
            yield from _differences(old or {}, new or {}, place)
        else:
            yield place, new
