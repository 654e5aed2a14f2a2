"""Example dialogue in the format of instruct mode."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.traced import added
from tavernkit._values import IdentityCache
from tavernkit.silly_tavern._chat.card_fields import START, ExampleTurn, read_block
from tavernkit.silly_tavern._instruct.template import InstructTemplate, replace_name

_START_LINE = re.compile(f"{START}\n", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleNames:
    """The names of a chat: those in speaker lines, and those written before messages."""

    user: str
    character: str
    members: Sequence[str] = ()
    in_group: bool = False
    written_user: str
    written_character: str


def format_examples(
    blocks: Sequence[str],
    template: InstructTemplate,
    names: ExampleNames,
    heading: str,
    expand: Callable[[str], str],
    known: IdentityCache[Sequence[str]] | None = None,
) -> list[list[str]]:
    """Write blocks (under ``<START>`` lines) as messages: for each block its pieces, including the heading.

    If no block has any speaker line, or examples are not formatted, each block is one piece under the heading.

    Args:
        blocks: The blocks.
        template: The instruct template.
        names: The names of the chat.
        heading: What is written instead of ``<START>``.
        expand: Expands macros of a sequence.
        known: Traced blocks that were written before.
    """
    if not template.skip_examples:
        sequences = _Sequences(template, names, expand)
        written = [sequences.write_block(block, heading, known) for block in blocks]
        if any(written):
            return written
    return [[_under(block, heading)] for block in blocks]


def _under(block: str, heading: str) -> str:
    """Replace the first ``<START>`` line with the heading."""
    found = _START_LINE.search(block)
    return block if found is None else block[: found.start()] + heading + block[found.end() :]


class _Sequences:
    """The sequences around the messages of both speakers, expanded once."""

    def __init__(self, template: InstructTemplate, names: ExampleNames, expand: Callable[[str], str]) -> None:
        self._template = template
        self._names = names
        self._user = self._prepare(template.input_sequence, template.input_suffix, names.written_user, expand)
        self._bot = self._prepare(template.output_sequence, template.output_suffix, names.written_character, expand)

    def _prepare(self, prefix: str, suffix: str, name: str, expand: Callable[[str], str]) -> tuple[str, str]:
        # Without macros SillyTavern also leaves out the default suffix.
        if not self._template.macro:
            return prefix, suffix
        prefix, suffix = (replace_name(expand(text), name) for text in (prefix, suffix))
        return prefix, suffix or self._template.separator

    def write_block(self, block: str, heading: str, known: IdentityCache[Sequence[str]] | None) -> list[str]:
        if known is None or type(block) is str or self._names.in_group:
            pieces: Sequence[str] | None = self._pieces(block)
        else:  # only traced texts are the same objects in the next turn
            key = block, self._template, *self._user, *self._bot, self._names.user, self._names.character
            pieces = known.get(*key)
            if pieces is None:
                pieces = known.put(self._pieces(block), *key)
        return [heading, *pieces] if pieces and heading else [*pieces]

    def _pieces(self, block: str) -> list[str]:
        names = self._names
        turns = read_block(
            block,
            user_name=names.user,
            character_name=names.character,
            group_names=names.members if names.in_group else (),
        )
        return [self._write(turn) for turn in turns]

    def _write(self, turn: ExampleTurn) -> str:
        names, behavior = self._names, self._template.names_behavior
        prefix, suffix = self._user if turn.from_user else self._bot
        name = turn.name
        if not names.in_group and behavior != "none":
            name = names.written_user if turn.from_user else names.written_character
        shown = behavior == "always" or (behavior == "force" and (turn.from_user or names.in_group))
        text = (name + added(": ", "names_behavior") if shown else "") + turn.text + suffix
        return prefix + self._template.separator + text if prefix else text
