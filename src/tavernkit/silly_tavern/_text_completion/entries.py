"""Example dialogue and the system prompt of a text build."""

from __future__ import annotations

from tavernkit._text.traced import join
from tavernkit.silly_tavern._chat_completion.layout import ExampleBlock
from tavernkit.silly_tavern._chat_completion.prompt_collection import DIALOGUE_EXAMPLES
from tavernkit.silly_tavern._instruct.examples import ExampleNames, format_examples
from tavernkit.silly_tavern._state import SillyTavernState
from tavernkit.silly_tavern._steps.prepare import group_names
from tavernkit.silly_tavern._text_completion.preparation import example_heading
from tavernkit.silly_tavern._text_completion.segments import Origin, Segment


def write_entries(state: SillyTavernState) -> None:
    """Write the examples, then choose the system prompt."""
    draft = state.draft
    draft.raw_examples = join("", (block.text for block in state.examples))
    draft.examples = _examples(state)
    draft.system = _system_prompt(state)


def _examples(state: SillyTavernState) -> list[Segment]:
    context, formatter = state.context, state.draft.formatter
    texts = [block.text for block in state.examples]
    written = [[text] for text in texts]
    if formatter is not None and texts:
        names = ExampleNames(
            user=context.user_name,
            character=context.character_name,
            members=group_names(state),
            in_group=context.group is not None,
            written_user=context.user_name,
            written_character=context.character_name,
        )
        written = format_examples(texts, formatter.template, names, example_heading(state), formatter.expand)
    segments: list[Segment] = []
    for number, (block, pieces) in enumerate(zip(state.examples, written, strict=True)):
        segments += [Segment(text, _origin(block, number, piece)) for piece, text in enumerate(pieces)]
    return segments


def _origin(block: ExampleBlock, number: int, piece: int) -> Origin:
    return Origin(
        id=f"{DIALOGUE_EXAMPLES} {number}-{piece}",
        role="system",
        source=block.source("entries", number),
        slot=DIALOGUE_EXAMPLES,
        group="examples",
    )


def _system_prompt(state: SillyTavernState) -> str:
    """Return the card's own if preferred, else that of the settings. Instruct mode expands it a second time."""
    setting, macros = state.context.active_system_prompt, state.macros
    if not setting.enabled:
        return ""
    own = state.card.system_prompt
    text = macros.with_original(own, setting.content) if own else macros.card(setting.content)
    return macros.with_original(text, setting.content) if state.draft.formatter is not None else text
