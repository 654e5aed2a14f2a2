"""The start of a text build: instruct mode, guidance and the limit."""

from __future__ import annotations

from dataclasses import replace

from tavernkit._values import EMPTY_OBJECT
from tavernkit.silly_tavern._chat.card_fields import START_LINE, split_examples
from tavernkit.silly_tavern._chat_completion.layout import ExampleBlock
from tavernkit.silly_tavern._instruct.formatting import InstructFormatter
from tavernkit.silly_tavern._state import SillyTavernState
from tavernkit.silly_tavern._text_completion.guidance import Guidance
from tavernkit.silly_tavern._world_info.selection import file_stem


def read_example_texts(state: SillyTavernState, text: str, template: ExampleBlock) -> list[ExampleBlock]:
    """Read example dialogue into blocks of text."""
    heading = START_LINE if state.context.active_instruct.enabled else example_heading(state)
    return [replace(template, text=block) for block in split_examples(text, heading)]


def example_heading(state: SillyTavernState) -> str:
    """Return the line above each block of example dialogue."""
    separator = state.context.active_context_template.example_separator
    return state.macros(separator) + "\n" if separator else ""


def begin_draft(state: SillyTavernState) -> None:
    """Start the draft: what the rest of the build writes and counts with."""
    context, draft = state.context, state.draft
    if context.active_instruct.enabled:
        draft.formatter = InstructFormatter(
            context.active_instruct,
            context.user_name,
            context.character_name,
            state.macros.sequence,
            in_group=context.group is not None,
        )
    draft.limit = context.max_context - context.max_response
    settings = context.settings.of_extension("cfg") or EMPTY_OBJECT
    guidance = Guidance.of(context.metadata, settings, file_stem(context.avatar_file))
    if guidance.in_use:
        positive, negative = state.macros(guidance.positive), state.macros(guidance.negative)
        draft.guidance = Guidance(guidance.scale, positive, negative, guidance.depth)
        draft.limit -= max(state.text_counter.text(positive), state.text_counter.text(negative))
