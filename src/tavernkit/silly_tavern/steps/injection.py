"""What goes into the chat and beside the main prompt."""

from __future__ import annotations

from tavernkit.prompt.omission import Omission
from tavernkit.prompt.step import NoConfig, Step
from tavernkit.silly_tavern.caching.placing import insert_frozen_lines, move_to_tail
from tavernkit.silly_tavern.chat.core_chat import role_of
from tavernkit.silly_tavern.chat_completion.built_in_prompts import beside_main
from tavernkit.silly_tavern.chat_completion.in_chat_injection import InChatPrompt, Injected, inject, injections
from tavernkit.silly_tavern.chat_completion.layout import HistoryEntry, Layout
from tavernkit.silly_tavern.chat_completion.prompt_collection import MAIN, START, Prompt
from tavernkit.silly_tavern.context import TAIL
from tavernkit.silly_tavern.provenance import title_of
from tavernkit.silly_tavern.state import SillyTavernState


class InjectionStep(Step[SillyTavernState, NoConfig]):
    """Makes the history of the core chat and of everything that stands in it at a depth.

    With ``volatile="tail"`` what stands at a depth, and prompts that change by themselves, go behind the chat. Reads
    ``prompt_entries``, ``extensions``, ``frozen_lines`` and ``core``; writes ``layout`` (history, prefill,
    beside_main), or ``draft``.
    """

    name = "injection"

    def before(self, state: SillyTavernState) -> None:
        """Place the registry's prompts and the in-chat prompts."""
        layout = Layout(state.prompt_entries, state.context.prompt_type, core=state.core)
        state.layout = layout
        in_chat = [_in_chat(prompt) for prompt in state.prompt_entries if prompt.in_chat]
        _place_beside_main(state, layout, in_chat)
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


def _place_beside_main(state: SillyTavernState, layout: Layout, in_chat: list[InChatPrompt]) -> None:
    """Prompts beside the main prompt go where it goes: into the chat with it, or nowhere if it is nowhere."""
    main = state.prompt_entries.get(MAIN)
    for prompt in beside_main(state.prompt_entries):
        if main is None:
            state.omit(_without_main(prompt))
        elif not main.in_chat:
            layout.beside_main.append(prompt)
        else:
            place = next(index for index, each in enumerate(in_chat) if each.identifier == MAIN)
            beside = InChatPrompt(
                identifier=prompt.identifier,
                source=prompt.source,
                role=main.role,
                content=prompt.content,
                depth=main.injection_depth,
                order=main.injection_order,
            )
            in_chat.insert(place if prompt.position == START else place + 1, beside)


def _without_main(prompt: Prompt) -> Omission:
    reason = "the main prompt it stands beside is not in the list"
    return Omission("injection", str(prompt.source.get("id")), reason, title_of(prompt.source))


def _take_prefill(state: SillyTavernState, layout: Layout, newest_first: list[HistoryEntry]) -> None:
    """Continuing by prefill takes the newest message out before depths are counted."""
    preset = state.context.active_preset
    if state.context.prompt_type != "continue" or not preset.continue_prefill or not state.core:
        return
    del newest_first[0]
    layout.prefill = state.core[-1]
    if preset.chat_completion_source == "claude" and role_of(layout.prefill.line) == "assistant":
        layout.prefill_prefix = state.macros(preset.assistant_prefill)
