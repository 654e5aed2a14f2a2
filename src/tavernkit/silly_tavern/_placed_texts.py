"""The texts of a build for a source map, each with its place in the whole prompt."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from tavernkit._values import is_mapping
from tavernkit.prompt._block import Block
from tavernkit.prompt._source_mapping import PlacedText
from tavernkit.silly_tavern._chat_completion.assembly import placed
from tavernkit.silly_tavern._chat_completion.prompt_collection import MAIN, around_main
from tavernkit.silly_tavern._state import SillyTavernState
from tavernkit.silly_tavern._steps.plan_assembly import assemble_chat
from tavernkit.silly_tavern._text_completion.plan import normalised, text_of
from tavernkit.silly_tavern._text_completion.planning import assemble_text


def placed_texts(state: SillyTavernState, lines: Sequence[int]) -> list[PlacedText]:
    """Return the texts of a build, with their places in a build of the whole chat.

    Args:
        state: The state after the steps of ``TRACED_PIPELINES``, or after a whole build.
        lines: The lines of the chat that it had.
    """
    if state.plan is not None:
        return [(_place(line_of_block(block), block.slot, lines), block.content) for block in state.plan.blocks]
    if state.context.text_completion:
        return _placed_segments(state, lines)
    if state.half == "chat":
        return [(_place(len(lines), "", lines), state.context.message)]
    if state.half == "story":
        prompts = state.prompt_entries
        around = [(MAIN, prompt.content) for prompt in around_main(prompts)]
        return [*[(prompt.identifier, prompt.content) for prompt in prompts if not prompt.in_chat], *around]
    return [
        (_place(_line_of(message.group, message.source), collection.identifier, lines), message.content)
        for collection, message in placed(assemble_chat(state))
    ]


def _placed_segments(state: SillyTavernState, lines: Sequence[int]) -> list[PlacedText]:
    if state.half == "story":
        collapses = state.context.settings.power_user.collapse_newlines
        segments = normalised(state.draft.story, collapse_newlines=collapses)
    else:
        _, segments = assemble_text(state)
    runs = [list(run) for _, run in groupby(segments, lambda segment: id(segment.origin))]
    return [
        (_place(_line_of(run[0].origin.group, run[0].origin.source), run[0].origin.slot, lines), text_of(run))
        for run in runs
    ]


def _place(line: int | None, slot: str | None, lines: Sequence[int]) -> object:
    """Return a place that can be compared between builds: that of a line in the whole chat, or a slot."""
    if line is None:
        return slot
    if line < len(lines):
        return lines[line]
    return (lines[-1] + 1 if lines else 0) + line - len(lines)  # the user's new message


def line_of_block(block: Block) -> int | None:
    """Return the index of a block's chat line; None if it is not made from one."""
    return _line_of(block.token_budget_group, block.metadata.get("source"))


def _line_of(group: str, source: object) -> int | None:
    if group != "history" or not is_mapping(source) or source.get("kind") != "history":
        return None
    index = source.get("id")
    return index if isinstance(index, int) else None
