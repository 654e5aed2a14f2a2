"""Everything that may go into the prompt, brought together."""

from __future__ import annotations

from tavernkit.prompt.step import NoConfig, Step
from tavernkit.silly_tavern.chat_completion.prompt_collection import Prompt
from tavernkit.silly_tavern.chat_completion.tools import reservation_text, tools_callable
from tavernkit.silly_tavern.state import SillyTavernState
from tavernkit.text.js_values import trim


class CompilationStep(Step[SillyTavernState, NoConfig]):
    """Completes the layout: control prompts, bias, tools, group nudge, examples; or writes the chat as text.

    Reads ``prompt_entries``, ``turn``, ``examples`` and ``context``; writes ``layout``, or
    ``draft``.
    """

    name = "compilation"

    def before(self, state: SillyTavernState) -> None:
        """Fill in the layout."""
        context, collection, layout = state.context, state.prompt_entries, state.need_layout()
        preset, kind = context.active_preset, context.prompt_type
        control: list[Prompt | None] = []
        if kind == "impersonate":
            control.append(collection.get("impersonate"))
        if state.quiet_prompt:
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
