"""The prompts of a Studio: built from its documents, and kept for what the page asks about them.

Two of them can be compared: versions of documents, other documents, or the two programs.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tavernkit import risu_ai, silly_tavern
from tavernkit._values import Json, JsonObject, LRUCache, thaw, thaw_object
from tavernkit.authoring import diff_values
from tavernkit.cache import PROFILES
from tavernkit.errors import TavernKitError, WarningLog
from tavernkit.models._bodies import request_body
from tavernkit.prompt._plan import Plan
from tavernkit.studio._changes import message_changes
from tavernkit.studio._document import Document
from tavernkit.studio._prompt_view import BuiltPrompt, build_view, cache_view, failed_view, sources_view
from tavernkit.studio._turn import PLATFORMS, Turn
from tavernkit.studio._workspace import State
from tavernkit.studio.errors import StudioError

if TYPE_CHECKING:
    from tavernkit.studio._studio import Studio


MAX_PROMPTS: Final = 60
"""How many prompts are kept, for later requests and for "what the model saw"."""
MAX_REPLAYED: Final = 3
"""How many previous turns fill a provider's cache."""
DIALECTS: Final = ("openai", "anthropic", "google", "cohere", "mistral", "ai21", "xai", "text")


class Prompts:
    """Builds prompts, and keeps the latest. The newest build wins: older waiting ones are skipped."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio
        self._kept: LRUCache[str, BuiltPrompt] = LRUCache(MAX_PROMPTS)
        self.last: BuiltPrompt | None = None
        """The last prompt."""
        self._numbers = 0
        self._asked = 0
        self._building = asyncio.Lock()
        self._threads = threading.Lock()

    def forget(self) -> None:
        """Forget all prompts: other documents were opened."""
        self._kept.clear()
        self.last = None

    async def build(self, since: str | None = None) -> JsonObject:
        """Build the prompt of the current documents; a newer waiting call wins.

        Args:
            since: The id of the prompt to compare with; the last one by default.
        """
        self._asked += 1
        mine = self._asked
        async with self._building:
            if mine != self._asked:
                return {"superseded": True, "revision": self._studio.workspace.revision}
            return await asyncio.to_thread(self._build_now, since)

    def _build_now(self, since: str | None) -> JsonObject:
        state, revision = self._studio.workspace.state, self._studio.workspace.revision
        before = self._kept.get(since) if since is not None else self.last
        try:
            look = self.make(state, revision)
        except TavernKitError as error:
            code = str(getattr(error, "code", None) or "build_failed").lower()
            return failed_view(str(error), code, revision=revision, platform=Turn.of(state).platform)
        self.last = look
        return build_view(look, before)

    def make(self, state: State, revision: int = 0, plan: Plan | None = None) -> BuiltPrompt:
        """Build a prompt and keep it.

        Args:
            state: The documents.
            revision: Their revision.
            plan: The prompt, if it was built already.
        """
        started = time.perf_counter()
        built = self._studio.inputs.build(state) if plan is None else plan
        spent = (time.perf_counter() - started) * 1000
        with self._threads:
            self._numbers += 1
            name = f"p{self._numbers}"
        turn = Turn.of(state)
        card = state.one("card")
        look = BuiltPrompt(name, state, built, turn.platform, revision, card.title if card is not None else "", spent)
        self._kept.put(name, look)
        return look

    def find(self, plan: str) -> BuiltPrompt:
        """Return a prompt that was built before.

        Raises:
            StudioError: It is no longer kept.
        """
        found = self._kept.get(plan)
        if found is None:
            raise StudioError(404, "this prompt is not remembered any more: build it again", code="plan_gone")
        return found

    def seen(self, plan: str) -> JsonObject:
        """Return a prompt that was built before as JSON: what the model saw."""
        return build_view(self.find(plan), None)

    async def sources(self, plan: str) -> JsonObject:
        """Return where every character of a prompt comes from."""
        return await asyncio.to_thread(sources_view, self.find(plan))

    async def request(self, plan: str, dialect: str, *, reference: bool = False) -> JsonObject:
        """Return what would be sent to a provider. It has no keys.

        Args:
            plan: The id of the prompt.
            dialect: The provider's protocol.
            reference: Return exactly what the other program sends.

        Raises:
            StudioError: There is no such prompt or dialect, or the request cannot be made.
        """
        look = self.find(plan)
        warnings = WarningLog()

        def make() -> JsonObject:
            if reference:
                wire = look.plan.request(reference=True, warn=warnings).wire
                assert wire is not None
                return {"body": thaw(wire.body), "url": wire.url}
            body = thaw_object(request_body(look.plan.request(dialect), warn=warnings))
            if body.get("model") == "":
                del body["model"]
                warnings("no model is chosen, neither in the preset nor for the next turn")
            return {"body": body}

        if dialect not in DIALECTS:
            raise StudioError(422, f"the dialect is one of {', '.join(DIALECTS)}", code="unknown_dialect")
        try:
            made = await asyncio.to_thread(make)
        except TavernKitError as error:
            raise StudioError(422, str(error), code="no_request") from error
        return {"dialect": dialect, **made, "warnings": list(warnings.messages)}

    async def cache(self, plan: str, profile: str) -> JsonObject:
        """Return what a provider's cache has of a prompt after the previous turns.

        Args:
            plan: The id of the prompt.
            profile: The provider.

        Raises:
            StudioError: There is no such prompt or profile.
        """
        if profile not in PROFILES:
            raise StudioError(422, f"the profile is one of {', '.join(PROFILES)}", code="unknown_profile")
        look = self.find(plan)
        return await asyncio.to_thread(self._cache_now, look, profile)

    def _cache_now(self, look: BuiltPrompt, profile: str) -> JsonObject:
        builder = self._studio.inputs.builder(look.state)
        turns = [*(risu_ai.replay(builder) if isinstance(builder, risu_ai.Builder) else silly_tavern.replay(builder))]
        earlier: Sequence[Plan] = [turn.plan for turn in turns[-MAX_REPLAYED:]]
        return cache_view(look, earlier, _said_before(earlier), profile)


def _said_before(plans: Sequence[Plan]) -> str:
    if not plans:
        return ""
    said = [message.content for message in plans[-1].messages if message.role == "user"]
    return said[-1][:80] if said else ""


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
