"""Compares two prompts: versions of documents, other documents, or the two programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tavernkit._values import Json, JsonObject
from tavernkit.authoring import diff_values
from tavernkit.errors import TavernKitError
from tavernkit.studio._changes import message_changes
from tavernkit.studio._document import Document
from tavernkit.studio._prompt_view import BuiltPrompt, build_view, failed_view
from tavernkit.studio._turn import PLATFORMS, Turn
from tavernkit.studio._workspace import State
from tavernkit.studio.errors import StudioError

if TYPE_CHECKING:
    from tavernkit.studio._studio import Studio

MAX_CHANGES: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side: documents as edited or as saved, by the rules of a program, some of them replaced by others."""

    version: str = "edited"
    platform: str | None = None
    instead: Mapping[str, str] = field(default_factory=dict[str, str])


def compare(studio: Studio, left: Side, right: Side) -> JsonObject:
    """Build two prompts and return both with their differences.

    Args:
        studio: The Studio with the documents.
        left: One side.
        right: The other.
    """
    state = studio.workspace.state
    # Two versions of a book that are both open: each side uses one of them.
    twice = {new for side in (left, right) for old, new in side.instead.items() if {old, new} <= state.active}
    state = replace(state, active=state.active - twice)
    states = _state(state, left), _state(state, right)
    looks = [_look(studio, each) for each in states]
    views: list[JsonObject] = [
        build_view(look, None)
        if isinstance(look, BuiltPrompt)
        else failed_view(str(look), "build_failed", revision=0, platform=Turn.of(each).platform)
        for look, each in zip(looks, states, strict=True)
    ]
    one, other = (look.said if isinstance(look, BuiltPrompt) else [] for look in looks)
    return {
        "left": views[0],
        "right": views[1],
        "messages": message_changes(one, other),
        "documents": _documents(state, *states),
    }


def _state(state: State, side: Side) -> State:
    if side.version not in ("edited", "saved"):
        raise StudioError(422, "the version is edited or saved", code="unknown_version")
    if side.platform is not None and side.platform not in PLATFORMS:
        raise StudioError(422, f"the platform is one of {', '.join(PLATFORMS)}", code="unknown_platform")
    documents = dict(state.documents)
    if side.version == "saved":
        documents = {key: replace(each, data=each.original) for key, each in documents.items()}
    for old, new in side.instead.items():
        if old not in documents or new not in documents or documents[old].kind != documents[new].kind:
            raise StudioError(422, f"{new!r} cannot replace {old!r}", code="cannot_compare")
        documents[old] = replace(documents[new], id=old)
    changed = replace(state, documents=documents)
    return changed if side.platform is None else changed.with_turn(platform=side.platform)


def _look(studio: Studio, state: State) -> BuiltPrompt | TavernKitError:
    try:
        return studio.prompts.make(state)
    except TavernKitError as error:
        return error


def _documents(state: State, left: State, right: State) -> list[Json]:
    """Return the differences between the documents of both sides."""
    rows: list[Json] = []
    for key in state.documents:
        one, other = left.documents[key], right.documents[key]
        if one.kind != "turn" and one.data is not other.data:
            changes = _changes(one, other)
            if changes:
                rows.append({"document": key, "name": one.title, "kind": one.kind, "changes": changes})
    return rows


def _changes(one: Document, other: Document) -> list[Json]:
    return [
        {"pointer": each.where, "kind": each.kind, "before": each.old, "after": each.new, "name": each.name}
        for each in diff_values(one.data, other.data)[:MAX_CHANGES]
    ]
