"""Moves changing texts to where they do not break a prompt cache: ``lore="freeze"`` and ``volatile="tail"``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tavernkit._values import EMPTY_OBJECT, FrozenJson, FrozenObject, is_mapping, is_sequence
from tavernkit.cache._profiles import CacheProfile, planned_marks
from tavernkit.cache._volatile import changes_by_itself
from tavernkit.prompt._block import Moved
from tavernkit.prompt._context import CACHE, FREEZE
from tavernkit.silly_tavern._caching.frozen_lore import (
    AFTER,
    BEFORE,
    METADATA_KEY,
    FrozenLine,
    digest,
    freeze,
    read_cut,
    read_frozen_lines,
)
from tavernkit.silly_tavern._caching.raw_texts import raw_texts
from tavernkit.silly_tavern._chat.core_chat import CoreMessage
from tavernkit.silly_tavern._chat.extension_prompts import (
    SMART_CONTEXT,
    SUMMARY,
    VECTORS_DATA_BANK,
    VECTORS_MEMORY,
)
from tavernkit.silly_tavern._chat_completion.assembly import HistoryCut
from tavernkit.silly_tavern._chat_completion.layout import HistoryEntry, InChatPrompt, Injected, Layout
from tavernkit.silly_tavern._chat_completion.prompt_collection import CHAT_HISTORY, Prompt, format_lore
from tavernkit.silly_tavern._context import SillyTavernContext
from tavernkit.silly_tavern._provenance import title_of
from tavernkit.silly_tavern._state import SillyTavernState
from tavernkit.silly_tavern._world_info.result import WorldInfoResult

REWRITTEN = frozenset({SUMMARY, VECTORS_MEMORY, VECTORS_DATA_BANK, SMART_CONTEXT})
"""Texts next to the main prompt that change during the chat."""

BEHIND = "after the chat"
MACRO_REASON = "a macro makes it another text in every prompt"
REWRITTEN_REASON = "it changes during the chat"
DEPTH_REASON = "every message would move it"


def freeze_lore(state: SillyTavernState, result: WorldInfoResult) -> WorldInfoResult:
    """Turn lore that fired by key into lines of the history, and leave the rest in place.

    An entry whose line is still in the prompt is not repeated. Reads ``turn`` and ``core``, writes ``frozen_lines``
    and ``active_lore``.
    """
    stored = state.context.metadata.get(METADATA_KEY)
    lines = read_frozen_lines(stored, state.turn.chat)
    state.frozen_lines = lines
    if not state.core:
        return result
    continued = state.context.prompt_type == "continue" and len(state.core) > 1  # and must stay the last
    newest, cut = state.core[-2 if continued else -1].index, read_cut(stored) or 0
    present = {line.id for line in lines if line.after >= cut}
    kept, fired = freeze(result, _unsent(state.context))
    causes = {str(each["id"]): str(each["cause"]) for each in _causes(state, result)}
    for placed, role, place in fired:
        identity = placed.entry.identity
        if identity in present:
            continue
        text = placed.content
        if place in (BEFORE, AFTER) and not state.context.text_completion:  # whose story string has its own format
            text = format_lore(text, state.context.active_preset.wi_format)
        line = FrozenLine(
            after=newest,
            line=digest(state.turn.chat[newest].mes),
            id=identity,
            title=placed.entry.title,
            text=state.macros(text),
            role=role,
            cause=causes.get(identity, ""),
            reference=f"World Info {place}",
        )
        if line.text:
            lines.append(line)
            present.add(identity)
    state.active_lore = frozenset(placed.entry.identity for placed, _, _ in fired)
    return kept


def _unsent(context: SillyTavernContext) -> list[str]:
    """Return the places that a text prompt does not have, because its story string does not use them."""
    if not context.text_completion:
        return []
    story = context.active_context_template.story_string
    asked = {BEFORE: ("wiBefore", "loreBefore"), AFTER: ("wiAfter", "loreAfter")}
    return [place for place, names in asked.items() if not any(name in story for name in names)]


def _causes(state: SillyTavernState, result: WorldInfoResult) -> Iterable[Mapping[str, object]]:
    placed = result.placement
    groups = (each for group in placed.depth_groups for each in group.entries)
    found = state.lore_sources.of((*placed.before, *placed.after, *placed.an_top, *placed.an_bottom, *groups))
    return (each for each in found if is_mapping(each))


def insert_frozen_lines(state: SillyTavernState, newest_first: list[HistoryEntry]) -> None:
    """Put each line of lore after its message; if that is hidden, after the one before."""
    for line in state.frozen_lines:
        entry = Injected(line.role, line.text, 0, 100, frozen=line)
        place = next(
            (
                place
                for place, each in enumerate(newest_first)
                if isinstance(each, CoreMessage) and each.index <= line.after
            ),
            len(newest_first),
        )
        while place > 0 and _frozen_behind(newest_first[place - 1], line):
            place -= 1
        newest_first.insert(place, entry)


def _frozen_behind(entry: HistoryEntry, line: FrozenLine) -> bool:
    return isinstance(entry, Injected) and entry.frozen is not None and entry.frozen.after <= line.after


def move_to_tail(
    state: SillyTavernState,
    layout: Layout,
    groups: Sequence[Sequence[Injected]],
    newest_first: list[HistoryEntry],
) -> None:
    """Move everything that moves or changes to after the chat: first texts from the head, then by depth.

    Args:
        state: The build.
        layout: The layout, from which prompts next to the main prompt may be moved.
        groups: Texts at a depth of the chat, shallow depths first.
        newest_first: The chat.
    """
    if CHAT_HISTORY not in state.prompt_entries:
        return
    tail: list[HistoryEntry] = []
    for group in groups:
        for message in group:
            tail.append(replace(message, depth=0))
            if message.depth:
                _report(state, message, f"in the chat at depth {message.depth}", DEPTH_REASON)
    texts = raw_texts(state.context, state.lore_result)
    from_head = [*_volatile_prompts(state, texts), *_volatile_around_main(layout, texts)]
    for prompt, place, reason in reversed(from_head):
        own = InChatPrompt(prompt.identifier, prompt.source, prompt.role, prompt.content, 0)
        message = Injected(prompt.role or "system", prompt.content, 0, 100, prompts=(own,))
        tail.append(message)
        _report(state, message, place, reason)
    newest_first[:0] = tail


def _volatile_prompts(state: SillyTavernState, texts: dict[tuple[str, str], str]) -> list[tuple[Prompt, str, str]]:
    """Remove prompts before the chat whose texts change by themselves from the list."""
    collection = state.prompt_entries
    found: list[tuple[Prompt, str, str]] = []
    for place in range(collection.index(CHAT_HISTORY)):
        prompt = collection.prompts[place]
        if prompt.content and not prompt.in_chat and not prompt.extension and changes(prompt.source, texts):
            found.append((prompt, "before the chat", MACRO_REASON))
            collection.prompts[place] = replace(prompt, content="")
    return found


def _volatile_around_main(layout: Layout, texts: dict[tuple[str, str], str]) -> list[tuple[Prompt, str, str]]:
    found: list[tuple[Prompt, str, str]] = []
    kept: list[Prompt] = []
    for prompt in layout.around_main:
        if prompt.source.get("id") in REWRITTEN:
            found.append((prompt, "next to the main prompt", REWRITTEN_REASON))
        elif changes(prompt.source, texts):
            found.append((prompt, "next to the main prompt", MACRO_REASON))
        else:
            kept.append(prompt)
    layout.around_main[:] = kept
    return found


def changes(source: FrozenObject, texts: dict[tuple[str, str], str]) -> bool:
    """Return True if a text changes by itself, because of a macro in it.

    Args:
        source: Where the text came from.
        texts: Raw texts of files, by kind and id.
    """
    keys = [(str(source.get("kind")), str(source.get("id")))]
    for name, kind in (("entries", "lore"), ("parts", None)):
        listed = source.get(name)
        pieces = [each for each in (listed if is_sequence(listed) else ()) if is_mapping(each)]
        keys += [(kind or str(each.get("kind")), str(each.get("id"))) for each in pieces]
    return any(changes_by_itself(texts.get(key, "")) for key in keys)


def _report(state: SillyTavernState, message: Injected, reference: str, reason: str) -> None:
    sources = [prompt.source for prompt in message.prompts]
    sources += [prompt.source("injection") for prompt in message.extensions]
    name = " + ".join(title_of(source) for source in sources)
    kind = str(sources[0].get("kind")) if sources else "injection"
    tokens = state.counter.message(message.role, message.content)
    state.moved.append(
        Moved(kind, str(sources[0].get("id")) if sources else "", name, reference, BEHIND, reason, tokens)
    )


def history_cut(state: SillyTavernState) -> HistoryCut | None:
    """Return how the history is cut, if not as in SillyTavern."""
    context = state.context
    if context.strategy != CACHE:
        return None
    stored = read_cut(context.metadata.get(METADATA_KEY))
    return HistoryCut(context.active_cache_profile, stored, context.expected_turns, state.active_lore)


def moved_lore(sent: Iterable[tuple[FrozenLine, int | None]]) -> list[Moved]:
    """Return the report of lore that is in the prompt as lines of the history, each with its tokens."""
    reason = "lore that comes and goes would change the head of the prompt"
    return [
        Moved("lore", line.id, line.title, line.reference, f"after message #{line.after}", reason, tokens)
        for line, tokens in sent
    ]


def cache_marks(context: SillyTavernContext) -> dict[str, CacheProfile]:
    """Return the cache marks of requests, by dialect."""
    if context.strategy != CACHE:
        return {}
    return planned_marks(context.active_cache_profile, chosen=context.cache_profile is not None)


def metadata_changes(context: SillyTavernContext, cut: int | None, sent: Sequence[FrozenLine]) -> FrozenObject:
    """Return what the next build must know.

    Args:
        context: The inputs.
        cut: The number of the chat line that the history begins with.
        sent: Lore in the history.
    """
    if context.strategy != CACHE and context.lore != FREEZE:
        return EMPTY_OBJECT
    stored: dict[str, FrozenJson] = {"version": 1}
    if context.strategy == CACHE and cut is not None:
        stored["cut"] = cut
    if context.lore == FREEZE:
        stored["lore"] = [line.to_json() for line in sent]
    return {METADATA_KEY: stored}
