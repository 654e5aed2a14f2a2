"""The steps that fill a chat prompt: the prompt list, what every prompt has, and what is in the chat."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tavernkit._text.js_values import trim
from tavernkit.prompt._block import Omission
from tavernkit.prompt._context import TAIL
from tavernkit.prompt._entry import EntryConditions, PromptEntry
from tavernkit.prompt._pipeline import NoConfig, Step
from tavernkit.silly_tavern._caching.placing import insert_frozen_lines, move_to_tail
from tavernkit.silly_tavern._chat.card_fields import IN_PROMPT
from tavernkit.silly_tavern._chat.core_chat import role_of, scan_messages
from tavernkit.silly_tavern._chat_completion.layout import (
    HistoryEntry,
    InChatPrompt,
    Injected,
    LateText,
    Layout,
    inject,
    injections,
)
from tavernkit.silly_tavern._chat_completion.prompt_collection import (
    MAIN,
    START,
    BuildTexts,
    Prompt,
    around_main,
    collect,
    merge_built_ins,
    override_by_card,
)
from tavernkit.silly_tavern._chat_completion.tools import reservation_text
from tavernkit.silly_tavern._files.preset_prompts import PresetPrompt, never_sent
from tavernkit.silly_tavern._provenance import OWN_PERSONA, title_of
from tavernkit.silly_tavern._state import SillyTavernState
from tavernkit.silly_tavern.providers._chat.page import tools_callable


class EntriesStep(Step[SillyTavernState, NoConfig]):
    """Collects the preset's prompts that are active for this generation, in order, and expands each.

    A prompt is active if it is enabled, its trigger includes the generation type and its ``conditions`` are met (these
    are our own addition to the format). Prompts that are not active are reported as omissions. Reads ``context``,
    ``core`` and ``macros``; writes ``prompt_entries``.
    """

    name = "entries"

    def before(self, state: SillyTavernState) -> None:
        """Walk the preset's order list."""
        preset = state.context.active_preset

        def leave_out(prompt: PresetPrompt, reason: str) -> None:
            state.omit(Omission("prompt", prompt.identifier, reason, prompt.name or None))

        state.prompt_entries = collect(
            preset.effective_prompts, preset.effective_order, _objections(state), state.macros, leave_out
        )
        for prompt in preset.effective_prompts:
            reason = never_sent(prompt) if prompt.content and prompt.identifier in state.prompt_entries else None
            if reason is not None:
                leave_out(prompt, reason)


def _objections(state: SillyTavernState) -> Callable[[PresetPrompt], str | None]:
    kind = state.context.prompt_type

    @cache
    def conditions() -> EntryConditions:
        return _conditions(state)

    def objection(prompt: PresetPrompt) -> str | None:
        if not prompt.triggered_by(kind):
            return f"its trigger does not name {kind!r}"
        if not prompt.conditions:
            return None
        entry = PromptEntry(id=prompt.identifier, conditions=prompt.conditions)
        return None if entry.active_for(conditions()) else "its conditions are not met"

    return objection


def _conditions(state: SillyTavernState) -> EntryConditions:
    context = state.context
    card = context.card
    return EntryConditions(
        chat_scan_messages=scan_messages(state.core, with_names=False),
        turn_count=sum(line.is_user for line in state.turn.chat),
        character=card,
        character_creator=card.creator if card is not None else "",
        character_version=card.character_version if card is not None else "",
        character_tags=card.tags if card is not None else (),
        user=context.user,
        persona=context.active_persona.description,
    )


class PinnedGroupsStep(Step[SillyTavernState, NoConfig]):
    """Puts the built-in texts into the prompt list.

    Reads ``lore_result``, ``card``, ``quiet_prompt``, ``turn`` and ``extensions``; writes ``prompt_entries``.
    """

    name = "pinned_groups"

    def before(self, state: SillyTavernState) -> None:
        """Merge the built-in prompts, then let the card override."""
        context, result = state.context, state.lore_result
        persona = context.active_persona
        texts = BuildTexts(
            card=state.card,
            lore_before=result.before if result is not None else "",
            lore_after=result.after if result is not None else "",
            quiet_prompt=state.quiet_prompt,
            bias=state.turn.bias,
            persona=persona.description if persona.place == IN_PROMPT else "",
            persona_reason=persona.reason or OWN_PERSONA,
            bias_reason=_bias_reason(state),
            entries_before=state.lore_sources.of(result.placement.before) if result is not None else (),
            entries_after=state.lore_sources.of(result.placement.after) if result is not None else (),
        )
        collection = state.prompt_entries
        merge_built_ins(collection, texts, context.active_preset, state.extensions, state.macros)
        override_by_card(collection, state.card, state.macros.with_original)


def _bias_reason(state: SillyTavernState) -> str:
    where = "a message (extra.bias)" if state.turn.bias_of_message else "the settings (user_prompt_bias)"
    return f"the reply begins with it; from {where}"


class InjectionStep(Step[SillyTavernState, NoConfig]):
    """Makes the history from the core chat and everything at a depth of it.

    With ``volatile="tail"``, texts at a depth and prompts that change by themselves go after the chat. Reads
    ``prompt_entries``, ``extensions``, ``frozen_lines`` and ``core``; writes ``layout`` (history, prefill,
    around_main).
    """

    name = "injection"

    def before(self, state: SillyTavernState) -> None:
        """Place the registry's prompts and the in-chat prompts."""
        layout = Layout(state.prompt_entries, core=state.core)
        state.layout = layout
        in_chat = [_in_chat(prompt) for prompt in state.prompt_entries if prompt.in_chat]
        _place_around_main(state, layout, in_chat)
        newest_first: list[HistoryEntry] = [*reversed(state.core)]
        _take_prefill(state, layout, newest_first)
        groups = injections(in_chat, state.extensions.in_chat(), state.macros)
        if state.context.volatile == TAIL:
            move_to_tail(state, layout, groups, newest_first)
        else:
            inject(newest_first, groups, _entry)
        if state.frozen_lines:
            insert_frozen_lines(state, newest_first)
        newest_first.reverse()
        layout.history = newest_first


def _entry(message: Injected) -> HistoryEntry:
    return message


def _in_chat(prompt: Prompt) -> InChatPrompt:
    return InChatPrompt(
        identifier=prompt.identifier,
        source=prompt.source,
        role=prompt.role,
        content=prompt.content,
        depth=prompt.injection_depth,
        order=prompt.injection_order,
    )


def _place_around_main(state: SillyTavernState, layout: Layout, in_chat: list[InChatPrompt]) -> None:
    """Prompts next to the main prompt follow it: into the chat, with its role, or out of the prompt."""
    main = state.prompt_entries.get(MAIN)
    for prompt in around_main(state.prompt_entries):
        if main is None:
            state.omit(_without_main(prompt))
        elif not main.in_chat:
            layout.around_main.append(prompt)
        else:
            place = next(index for index, each in enumerate(in_chat) if each.identifier == MAIN)
            added = InChatPrompt(
                identifier=prompt.identifier,
                source=prompt.source,
                role=main.role,
                content=prompt.content,
                depth=main.injection_depth,
                order=main.injection_order,
            )
            # Each directly beside it, so of several after the main prompt the last one comes first.
            in_chat.insert(place if prompt.position == START else place + 1, added)


def _without_main(prompt: Prompt) -> Omission:
    reason = "the main prompt it belongs to is not in the list"
    return Omission("injection", str(prompt.source.get("id")), reason, title_of(prompt.source))


def _take_prefill(state: SillyTavernState, layout: Layout, newest_first: list[HistoryEntry]) -> None:
    """Remove the newest message before depths are counted, for continuing by prefill."""
    preset = state.context.active_preset
    if state.context.prompt_type != "continue" or not preset.continue_prefill or not state.core:
        return
    del newest_first[0]
    layout.prefill = state.core[-1]
    if preset.chat_completion_source == "claude" and role_of(layout.prefill.line) == "assistant":
        layout.prefill_prefix = state.macros(preset.assistant_prefill)


class CompilationStep(Step[SillyTavernState, NoConfig]):
    """Completes the layout: control prompts, bias, tools, group nudge, examples.

    Reads ``prompt_entries``, ``turn``, ``examples`` and ``context``; writes ``layout``.
    """

    name = "compilation"

    def before(self, state: SillyTavernState) -> None:
        """Fill in the layout."""
        context, collection, layout = state.context, state.prompt_entries, state.need_layout()
        preset, kind = context.active_preset, context.prompt_type
        control: list[Prompt | None] = []
        if kind == "impersonate":
            control.append(collection.get("impersonate"))
        if state.quiet_prompt:  # of any type of generation
            control.append(collection.get("quietPrompt"))
        layout.control = [prompt for prompt in control if prompt is not None]
        layout.bias = bool(trim(state.turn.bias))
        if tools_callable(preset, kind):
            layout.tools_text = reservation_text(context.tools)
        if context.group is not None and kind != "impersonate":
            layout.group_nudge = collection.get("groupNudge")
        if kind == "continue" and not preset.continue_prefill:
            # An empty chat is continued like an empty message: the postfix alone asks for the nudge.
            layout.continued_text = (state.core[-1].text if state.core else "") + preset.continue_postfix
        layout.send_if_empty = preset.send_if_empty
        layout.examples = state.examples
        layout.pin_examples = context.settings.power_user.pin_examples


class MacroExpansionStep(Step[SillyTavernState, NoConfig]):
    """Binds the texts that are expanded last: separators, the nudge to continue, and the history.

    Card, lore and preset texts were expanded by the steps that took them, in SillyTavern's order. The rest is expanded
    when the assembly reaches it, newest message first, because macros of texts that do not fit never run.
    Reads ``context`` and ``layout``; writes ``layout``.
    """

    name = "macro_expansion"

    def before(self, state: SillyTavernState) -> None:
        """Bind the late texts."""
        context, layout, macros = state.context, state.need_layout(), state.macros
        preset = context.active_preset
        new_chat = preset.new_chat_prompt if context.group is None else preset.new_group_chat_prompt
        layout.new_chat = LateText(new_chat, macros)
        layout.example_header = LateText(preset.new_example_chat_prompt, macros)
        if layout.continued_text:
            last_message = trim(layout.continued_text)

            def nudge(text: str) -> str:
                return macros(macros.with_macros(text, {"lastChatMessage": last_message}))

            layout.continue_nudge = LateText(preset.continue_nudge_prompt, nudge)
