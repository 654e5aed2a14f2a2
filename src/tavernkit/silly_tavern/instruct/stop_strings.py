"""The stop strings that templates ask for."""

from __future__ import annotations

from collections.abc import Callable

from tavernkit.silly_tavern.context_template.template import ContextTemplate
from tavernkit.silly_tavern.instruct.names import NOBODY, replace_name
from tavernkit.silly_tavern.instruct.template import InstructTemplate
from tavernkit.text.js_values import trim


def template_stop_strings(
    instruct: InstructTemplate,
    context: ContextTemplate,
    *,
    user_name: str,
    character_name: str,
    expand: Callable[[str], str],
) -> list[str]:
    """Each line of the instruct template's sequences, then the context template's separators; twins may be in it."""
    found: list[str] = []
    if instruct.enabled:
        for line in dict.fromkeys(_lines(instruct, user_name, character_name)):
            if trim(line):
                text = instruct.separator + line
                found.append(expand(text) if instruct.macro else text)
    if context.use_stop_strings:
        found += [f"\n{expand(text)}" for text in (context.chat_start, context.example_separator) if text]
    return found


def _lines(instruct: InstructTemplate, user_name: str, character_name: str) -> list[str]:
    sequences = [instruct.stop_sequence]
    if instruct.sequences_as_stop_strings:
        sequences += [
            replace_name(instruct.input_sequence, user_name),
            replace_name(instruct.output_sequence, character_name),
            replace_name(instruct.first_output_sequence, character_name),
            replace_name(instruct.last_output_sequence, character_name),
            replace_name(instruct.system_sequence, NOBODY),
            replace_name(instruct.last_system_sequence, NOBODY),
        ]
    return "\n".join(sequences).split("\n")
