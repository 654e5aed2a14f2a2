"""World Info: the scan, and the placement of its texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tavernkit._text.js_values import to_number, to_string
from tavernkit._values import FrozenJson
from tavernkit.prompt._context import FREEZE
from tavernkit.prompt._pipeline import NoConfig, Step
from tavernkit.silly_tavern._caching.placing import freeze_lore
from tavernkit.silly_tavern._chat.authors_note import with_lore
from tavernkit.silly_tavern._chat.card_fields import AT_DEPTH, TOP_OF_NOTE
from tavernkit.silly_tavern._chat.core_chat import scan_messages
from tavernkit.silly_tavern._chat.extension_prompts import (
    AUTHORS_NOTE,
    IN_CHAT,
    PERSONA,
    QUIET_PROMPT,
    ROLES,
    ExtensionPrompt,
)
from tavernkit.silly_tavern._chat_completion.layout import ExampleBlock
from tavernkit.silly_tavern._provenance import OWN_PERSONA
from tavernkit.silly_tavern._services import selected_books
from tavernkit.silly_tavern._state import SillyTavernState
from tavernkit.silly_tavern._world_info.placement import DepthGroup
from tavernkit.silly_tavern._world_info.result import LoreSources, WorldInfoResult, lore_reason
from tavernkit.silly_tavern._world_info.scan_input import ScanData, ScanInput, Speaker


class LoreStep(Step[SillyTavernState, NoConfig]):
    """Scans World Info and places the lore.

    Reads what ``prepare`` wrote. Writes ``lore_result``, ``lore_sources`` and ``outlets``, and changes ``examples``,
    ``extensions`` and ``note``. With ``lore="freeze"``, lore that fired by key goes to ``frozen_lines``.
    """

    name = "lore"

    def before(self, state: SillyTavernState) -> None:
        """Scan and place."""
        result = state.lore_result
        if result is None:
            result = (state.context.lore_engine or state.services.lore_engine).scan(self.scan_input(state))
        elif state.half == "story":
            result = result.again(self.scan_input(state))
        state.lore_sources = LoreSources(result, selected_books(state.context, state.services))
        if state.context.lore == FREEZE and not state.context.skip_world_info_registration:
            result = freeze_lore(state, result)
        state.lore_result = result
        state.extensions.remove(QUIET_PROMPT)
        _wrap_note(state, result)
        _add_examples(state, result)
        if not state.context.skip_world_info_registration:
            _register(state, result)
        _place_persona(state)
        for omission in result.omissions:
            state.omit(omission)
        state.stat("lore_activated", len(result.activated))
        if state.context.settings.power_user.strip_examples:
            self.strip_examples(state)

    def scan_input(self, state: SillyTavernState) -> ScanInput:
        """Return the input of the scan; its budget is a share of the context without the reply."""
        context = state.context
        return scan_input(state, context.max_context - context.max_response, state.counter.lore)

    def strip_examples(self, state: SillyTavernState) -> None:
        """Leave out example dialogue."""
        state.examples = []


def scan_input(state: SillyTavernState, max_context: int, count_tokens: Callable[[str], int]) -> ScanInput:
    """Return the input of the scan: the chat newest first, the card, and texts of extensions."""
    context, card = state.context, state.card
    settings = context.settings.world_info
    return ScanInput(
        messages=scan_messages(state.core, with_names=settings.include_names),
        books=selected_books(context, state.services),
        max_context=max_context,
        count_tokens=count_tokens,
        settings=settings,
        scan_data=ScanData(
            persona_description=card.persona,
            character_description=card.description,
            character_personality=card.personality,
            character_depth_prompt=card.depth_prompt,
            scenario=card.scenario,
            creator_notes=card.creator_notes,
        ),
        injects=(*state.extensions.scanned(state.macros), *_persona_of_last_build(state)),
        generation_type=context.prompt_type,
        speaker=Speaker(context.avatar_file, frozenset(context.tags)) if context.card is not None else None,
        timed_state=context.metadata.timed_world_info,
        forced=(*context.forced_world_info, *state.forced_lore),
        dry_run=context.dry_run,
        expand=state.macros,
        apply_regex=state.scripts.lore if state.scripts is not None else _unchanged,
        read=state.read_entry,
        random=state.random,
        warn=state.warn,
    )


def _persona_of_last_build(state: SillyTavernState) -> Sequence[str]:
    """Return the persona at a depth that the chat's last build left.

    SillyTavern registers the persona after the scan, so the first prompt after a chat is opened does not see it.
    """
    text = state.macros(state.memory.persona_in_chat)
    return (text,) if text else ()


def _wrap_note(state: SillyTavernState, result: WorldInfoResult) -> None:
    if state.note is not None and state.note.due:
        entries = state.lore_sources.of((*result.placement.an_top, *result.placement.an_bottom))
        _set_note(state, with_lore(state.note.text, result.an_top, result.an_bottom), entries)


def _set_note(state: SillyTavernState, text: str, entries: Sequence[FrozenJson] = ()) -> None:
    note = state.extensions.get(AUTHORS_NOTE)
    if note is None:
        return
    reason = f"{note.reason}; with World Info: {lore_reason(entries)}" if entries else note.reason
    state.extensions.set(replace(note, value=text, reason=reason, entries=entries or note.entries))


def _add_examples(state: SillyTavernState, result: WorldInfoResult) -> None:
    for example in result.examples:
        title = f"World Info as example dialogue: {example.entry.title}"
        reason = lore_reason(state.lore_sources.of([example]))
        template = ExampleBlock((), "lore", example.entry.identity, title, reason)
        blocks = state.read_examples(state, state.macros.card(example.content), template)
        # Each goes in front of the earlier ones: before the card's examples, the order of entries is reversed.
        state.examples = [*blocks, *state.examples] if example.before else [*state.examples, *blocks]


def _register(state: SillyTavernState, result: WorldInfoResult) -> None:
    for group in result.depth_groups:
        state.extensions.set(_depth_prompt(group, state.lore_sources.of(group.entries)))
    state.outlets = result.outlets
    state.macros.change(outlets=result.outlets)


def _depth_prompt(group: DepthGroup, entries: Sequence[FrozenJson]) -> ExtensionPrompt:
    depth, role = to_number(group.depth), to_number(group.role)
    spoken = ROLES[int(role)] if role in (0, 1, 2) else "no role"
    return ExtensionPrompt(
        key=f"customDepthWI_{to_string(group.depth)}_{to_string(group.role)}",
        value=group.text,
        position=IN_CHAT,
        depth=depth if depth == depth else -1,
        role=role if role == role else -1,
        kind="lore",
        reason=lore_reason(entries),
        title=f"World Info at depth {to_string(group.depth)} ({spoken})",
        entries=entries,
    )


def _place_persona(state: SillyTavernState) -> None:
    persona = state.context.active_persona
    at_depth = bool(persona.description) and persona.place == AT_DEPTH
    state.memory.persona_in_chat = persona.description if at_depth else ""
    if at_depth:
        place = (IN_CHAT, persona.depth, persona.role)
        state.extensions.set(
            ExtensionPrompt(
                PERSONA, persona.description, *place, scan=True, kind="persona", reason=persona.reason or OWN_PERSONA
            )
        )
    note = state.extensions.get(AUTHORS_NOTE)
    if note is not None and state.note is not None and state.note.due:
        text = persona.around_note(note.value)
        if text is not note.value:
            above = "above" if persona.place == TOP_OF_NOTE else "below"
            reason = f"{note.reason}; {above} it: {persona.reason or OWN_PERSONA}"
            state.extensions.set(replace(note, value=text, reason=reason))


def _unchanged(text: str, _depth: float | None) -> str:
    return text
