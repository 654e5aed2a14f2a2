"""The macros that are left."""

from __future__ import annotations

from tavernkit.prompt.step import NoConfig, Step
from tavernkit.silly_tavern.chat_completion.layout import LateText
from tavernkit.silly_tavern.state import SillyTavernState
from tavernkit.text.js_values import trim


class MacroExpansionStep(Step[SillyTavernState, NoConfig]):
    """Binds the texts that are expanded last: separators, the nudge to continue, and the history.

    Card, lore and preset texts were expanded by the steps that took them, in SillyTavern's order. What is left is
    expanded when the assembly reaches it, newest message first, because macros of what does not fit never run.
    Reads ``context`` and ``layout``; writes ``layout``, or ``draft``.
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
