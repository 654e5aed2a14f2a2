"""Writes messages, example dialogue, the reply line and the story string with an instruct template."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import trim, trim_end, trim_start
from tavernkit._text.traced import added, join, plain
from tavernkit._values import IdentityCache
from tavernkit.silly_tavern._chat.card_fields import ExampleTurn, read_block
from tavernkit.silly_tavern._group import START
from tavernkit.silly_tavern._templates.templates import NOBODY, InstructTemplate, replace_name

ANY, FIRST, LAST = 0, 1, 2
"""Which sequence a message gets: its speaker's usual one, that of the oldest message, or that of the newest."""


@dataclass(frozen=True, slots=True)
class Written:
    """A message in its prompt format; ``open_end`` is where its text ends and its suffix begins."""

    text: str
    open_end: int

    @property
    def unfinished(self) -> str:
        """The message without its suffix, for a model that continues it."""
        return self.text[: self.open_end]


@dataclass(frozen=True, slots=True)
class Line:
    """What a message's sequences depend on."""

    name: str
    text: str
    is_user: bool = False
    narrator: bool = False
    forced_avatar: bool = False


@dataclass(frozen=True, slots=True)
class InstructFormatter:
    """Writes with one template. ``expand`` expands macros of a sequence and leaves ``{{name}}`` to the formatter."""

    template: InstructTemplate
    user_name: str
    character_name: str
    expand: Callable[[str], str]
    in_group: bool = False

    @property
    def rules(self) -> tuple[object, ...]:
        """The key of everything that a message between the first and the last one depends on besides itself."""
        template = self.template
        return (
            *(template.macro, template.separator, template.names_behavior, self.user_name, self.in_group),
            *self._usual_sequences,
        )

    def is_constant(self, is_plain: Callable[[str], bool]) -> bool:
        """Return True if equal messages between the first and the last one are always written alike.

        Args:
            is_plain: Returns True for texts that ``expand`` leaves as they are.
        """
        return not self.template.macro or all(is_plain(text) for text in self._usual_sequences)

    @property
    def _usual_sequences(self) -> tuple[str, ...]:
        template = self.template
        user, character = (
            (template.input_sequence, template.input_suffix),
            (template.output_sequence, template.output_suffix),
        )
        return (*user, *character, *self._system_sequences)

    @property
    def _system_sequences(self) -> tuple[str, str]:
        template = self.template
        if template.system_same_as_user:
            return template.input_sequence, template.input_suffix
        return template.system_sequence, template.system_suffix

    def message(self, line: Line, place: int = ANY, *, constant: bool = False, untraced: bool = False) -> Written:
        """Write a message of the chat. Its own text is not expanded, nor are sequences that are ``constant``.

        Args:
            line: The message.
            place: Where it is.
            constant: Its sequences contain no macros.
            untraced: No source map asks for it.
        """
        template, separator = self.template, self.template.separator
        prefix, suffix = self._sequences(line, place)
        if template.macro and not constant:
            prefix = replace_name(self.expand(prefix), line.name)
            suffix = replace_name(self.expand(suffix), line.name)
        suffix = suffix or separator  # also for one that expands to nothing
        if type(line.text) is not str:
            name = (line.name, added(": ", "names_behavior")) if line.name and self._shows_name(line) else ()
            body = (*name, line.text, suffix)
            text = join("", (prefix, separator, *body) if prefix and any(body) else (prefix, *body))
            return Written(text, len(text) - len(suffix))
        if untraced:
            prefix, suffix = plain(prefix), plain(suffix)
        between = ": " if untraced else added(": ", "names_behavior")
        name = line.name + between if line.name and self._shows_name(line) else ""
        body = name + line.text + suffix
        text = prefix + separator + body if prefix and body else prefix or body
        return Written(text, len(text) - len(suffix))

    def reply_line(
        self, name: str, *, impersonate: bool = False, bias: str = "", quiet: bool = False, loud: bool = False
    ) -> str:
        """Write the line before the reply. With ``loud``, the character answers a quiet prompt."""
        template, separator = self.template, self.template.separator
        behavior = template.names_behavior
        named = bool(name) and (behavior == "always" or (self.in_group and behavior == "force"))
        named = named and not (quiet and not loud)
        sequence = self._reply_sequence(impersonate=impersonate, neutral=quiet and not loud)
        filler = self._filler(sequence) if named else ""
        if template.macro:
            sequence = replace_name(self.expand(sequence), name)
        text = separator + sequence
        if named:
            text += separator + filler + name + added(":", "names_behavior")
        if quiet:
            text = text.removeprefix(separator)
        if bias and not impersonate:
            text += bias if named else separator + trim_start(bias)
        return (trim_end(text) if template.wrap else text) + ("" if named else separator)

    def story(self, story: str) -> tuple[str, str]:
        """Return what goes before and after a story string outside the chat.

        Macros are always expanded here, but ``{{name}}`` only in the prefix, and no line break precedes the suffix.
        """
        if not story:
            return "", ""
        template = self.template
        prefix, suffix = template.story_string_prefix, template.story_string_suffix
        before = replace_name(self.expand(prefix), NOBODY) + template.separator if prefix else ""
        return before, self.expand(suffix) if suffix else ""

    def _shows_name(self, line: Line) -> bool:
        if line.narrator or self.template.names_behavior == "none":
            return False
        if self.template.names_behavior == "always":
            return True
        return (self.in_group or line.forced_avatar) and line.name != self.user_name

    def _sequences(self, line: Line, place: int) -> tuple[str, str]:
        template = self.template
        if line.narrator:  # whatever the place
            return self._system_sequences
        if line.is_user:
            special = (None, template.first_input_sequence, template.last_input_sequence)[place]
            return special or template.input_sequence, template.input_suffix
        special = (None, template.first_output_sequence, template.last_output_sequence)[place]
        return special or template.output_sequence, template.output_suffix

    def _reply_sequence(self, *, impersonate: bool, neutral: bool) -> str:
        template = self.template
        if impersonate:
            return template.last_input_sequence or template.input_sequence
        if neutral:
            return template.last_system_sequence or template.output_sequence
        return template.last_output_sequence or template.output_sequence

    def _filler(self, sequence: str) -> str:
        """Return the space that the usual sequence ends with, if the last one lacks it."""
        usual, last = self.template.output_sequence, self.template.last_output_sequence
        if not usual or not last or sequence != last:
            return ""
        return usual[-1] if not trim(usual[-1]) and trim(last[-1]) else ""


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
