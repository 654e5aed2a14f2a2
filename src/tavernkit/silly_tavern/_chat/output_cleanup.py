"""The end of a reply: the strings at which the model stops, and SillyTavern's clean-up of what it wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit._text.js_regex import JSRegex
from tavernkit._text.js_values import trim, trim_end, trim_start
from tavernkit._values import is_list
from tavernkit.errors import Warn
from tavernkit.silly_tavern._files.settings import PowerUser
from tavernkit.silly_tavern._templates.templates import NOBODY, ContextTemplate, InstructTemplate, replace_name

END_OF_TEXT = "<|endoftext|>"
SENTENCE_ENDS = frozenset('.!?*")}`]$。！？”）】’」_')
"""Marks that end a sentence; an emoji does too."""

_SPACES = r"\t \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_WHITESPACE = rf"{_SPACES}\n\v\f\r\u2028\u2029\ufeff"
_LINE_BREAKS = r"\n\r\u2028\u2029"
_NEWLINES = re.compile(r"\n+")
# Each run of spaces is matched once, from its start: a long one in a line would take quadratic time.
_IN_LINE = rf"{_SPACES}\v\f\u2028\u2029\ufeff"
# U+2028 and U+2029 are white space and line ends: in a run, what comes before the last one is removed.
_BLANKS_AT_LINE_END = re.compile(rf"(?<![{_IN_LINE}])(?:[{_IN_LINE}]++(?=[\r\n]|\Z)|[{_IN_LINE}]+(?=[\u2028\u2029]))")
_MARKED = re.compile(r"([*_]{1,2})([\s\S]*?)\1")
_BLANKS_AT_MARKS = re.compile(rf"(?<=[*_])[{_SPACES}]++|(?<![{_SPACES}])[{_SPACES}]++(?=[*_])")


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanUp:
    """Options of a clean-up. ``scripts`` are the regex scripts of the reply, ``members`` a group's names."""

    user_name: str
    """The user's name."""
    character_name: str
    """The character's name."""
    impersonate: bool = False
    """True if the model wrote for the user."""
    continuing: bool = False
    """True if the reply continues a message."""
    display_incomplete_sentences: bool = False
    """True to keep an unfinished sentence, even with ``trim_sentences``."""
    include_user_prompt_bias: bool = True
    """True to put the user's prompt bias before the reply."""
    trim_names: bool = True
    """True to remove the speaker's name from the start."""
    trim_wrong_names: bool = True
    """True to cut the reply where the model begins to speak for the other side."""
    trim_sentences: bool = False
    """True to cut off an unfinished sentence."""
    instruct: InstructTemplate = field(default_factory=InstructTemplate.off)
    """The instruct template, whose sequences are cut off."""
    power_user: PowerUser = field(default_factory=PowerUser)
    """The user's switches."""
    stop_strings: Sequence[str] = ()
    """Strings at which the reply is cut."""
    members: Sequence[str] = ()
    expand: Callable[[str], str] = str
    """Expands the macros of a text."""
    scripts: Callable[[str], str] = str


def clean_up(text: str, options: CleanUp) -> str:
    """Clean up a reply, step by step in SillyTavern's order.

    Args:
        text: The model's reply.
        options: Names, settings and stop strings to clean up by.
    """
    if not text:
        return ""
    for step in STEPS:
        text = step(text, options)
    return text


def _add_bias(text: str, options: CleanUp) -> str:
    bias = options.power_user.user_prompt_bias
    if not options.include_user_prompt_bias or not bias or options.impersonate or options.continuing:
        return text
    return options.expand(bias) + text


def _cut_begun_stop_strings(text: str, options: CleanUp) -> str:
    """Remove the start of a stop string from the end, once for each."""
    for stop in options.stop_strings:
        text = text[: len(text) - _overlap(text, stop)]
    return text


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest suffix of a text that is a prefix of the stop string (KMP)."""
    start = stop[: len(text)]
    shorter = [0] * len(start)  # for each prefix, its longest proper prefix that is also a suffix
    matched = 0
    for index in range(1, len(start)):
        while matched and start[index] != start[matched]:
            matched = shorter[matched - 1]
        matched += start[index] == start[matched]
        shorter[index] = matched
    matched = 0
    for character in text[len(text) - len(start) :]:
        while matched and character != start[matched]:
            matched = shorter[matched - 1]
        matched += character == start[matched]
    return matched


def _run_scripts(text: str, options: CleanUp) -> str:
    return options.scripts(text)


def _collapse_newlines(text: str, options: CleanUp) -> str:
    return _NEWLINES.sub("\n", text) if options.power_user.collapse_newlines else text


def _trim_lines(text: str, _options: CleanUp) -> str:
    # After newlines were collapsed: lines that become empty here stay.
    return _BLANKS_AT_LINE_END.sub("", text)


def _cut_wrong_name(text: str, options: CleanUp) -> str:
    """Cut the reply where the model begins to speak for the other side."""
    shown = options.power_user.allow_name2_display if options.impersonate else options.power_user.allow_name1_display
    if not options.trim_wrong_names or shown:
        return text
    wrong = options.character_name if options.impersonate else options.user_name
    if text.startswith(f"{wrong}:"):
        return ""
    return text.partition(f"\n{wrong}:")[0]


def _cut_end_of_text(text: str, _options: CleanUp) -> str:
    return text.partition(END_OF_TEXT)[0]


def _cut_sequences(text: str, options: CleanUp) -> str:
    instruct = options.instruct
    if not instruct.enabled:
        return text
    # As they are written: with several lines or macros in them, they are found as such only.
    if instruct.stop_sequence:
        text = text.partition(instruct.stop_sequence)[0]
    return text.partition(instruct.input_sequence)[0] if trim(instruct.input_sequence) else text


def _remove_sequences(text: str, options: CleanUp) -> str:
    instruct = options.instruct
    if not instruct.enabled or not instruct.sequences_as_stop_strings:
        return text
    own = (instruct.output_sequence, instruct.last_output_sequence)
    for sequence in (instruct.input_sequence,) if options.impersonate else own:
        for line in sequence.split("\n"):
            if trim(line):  # wherever it occurs, also within a sentence
                text = text.replace(line, "")
    return text


def _cut_other_members(text: str, options: CleanUp) -> str:
    if options.power_user.disable_group_trimming:
        return text
    for name in options.members:
        if name == options.character_name:
            continue
        if text.startswith(f"{name}:"):
            return ""
        text = text.partition(f"\n{name}:")[0]
    return text


def _remove_own_name(text: str, options: CleanUp) -> str:
    if options.power_user.allow_name2_display:
        return text
    # With all white space after it: an empty line behind a name disappears. Also when the model writes for the user.
    name = re.escape(options.character_name)
    return re.sub(rf"(?:\A|(?<=[{_LINE_BREAKS}])){name}:[{_WHITESPACE}]*", "", text)


def _trim_impersonation(text: str, options: CleanUp) -> str:
    return trim(text) if options.impersonate else text


def _fix_markdown(text: str, options: CleanUp) -> str:
    """Remove spaces between emphasis marks and the emphasised text."""
    if not options.power_user.auto_fix_generated_markdown:
        return text
    return _MARKED.sub(lambda found: _BLANKS_AT_MARKS.sub("", found.group()), text)


def _remove_leading_name(text: str, options: CleanUp) -> str:
    shown = options.power_user.allow_name1_display if options.impersonate else options.power_user.allow_name2_display
    own = options.user_name if options.impersonate else options.character_name
    if not options.trim_names or shown or not text.startswith(f"{own}:"):
        return text
    return trim_start(text[len(own) + 1 :])


def _end_with_a_sentence(text: str, options: CleanUp) -> str:
    return trim_to_sentence(text) if options.trim_sentences and not options.display_incomplete_sentences else text


def _trim_spaces(text: str, options: CleanUp) -> str:
    return trim(text) if options.power_user.trim_spaces else text


STEPS: tuple[Callable[[str, CleanUp], str], ...] = (
    _add_bias,
    _cut_begun_stop_strings,
    _run_scripts,
    _collapse_newlines,
    _trim_lines,
    _cut_wrong_name,
    _cut_end_of_text,
    _cut_sequences,
    _remove_sequences,
    _cut_other_members,
    _remove_own_name,
    _trim_impersonation,
    _fix_markdown,
    _remove_leading_name,
    _trim_impersonation,
    _end_with_a_sentence,
    _trim_spaces,
)
"""The whole clean-up, in order."""


def trim_to_sentence(text: str) -> str:
    """Keep a text up to its last whole sentence; a single mark after a space is not kept."""
    for index in range(len(text) - 1, -1, -1):
        mark = text[index]
        if mark in SENTENCE_ENDS:
            alone = index > 0 and not trim(text[index - 1])
            return trim_end(text[:index] if alone else text[: index + 1])
        if ord(mark) > 0xA8 and _is_emoji(mark):
            return trim_end(text[: index + 1])
    return trim_end(text)


def _is_emoji(character: str) -> bool:
    return JSRegex.compile(r"[\p{Emoji_Presentation}\p{Extended_Pictographic}]", "u").test(character)


def template_stop_strings(
    instruct: InstructTemplate,
    context: ContextTemplate,
    *,
    user_name: str,
    character_name: str,
    expand: Callable[[str], str],
) -> list[str]:
    """Return the lines of the instruct template's sequences, then the context template's separators."""
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
    # Without the first and the last input sequence, which SillyTavern does not stop at.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class StopInput:
    """The inputs of stop strings; ``members`` are the names of a group, ``once`` strings of this generation only."""

    instruct: InstructTemplate
    """The instruct template."""
    context: ContextTemplate
    """The context template."""
    user_name: str
    """The user's name."""
    character_name: str
    """The character's name."""
    members: Sequence[str] = ()
    impersonate: bool = False
    """True if the model writes for the user."""
    continues_user: bool = False
    """True if a user's message is continued."""
    custom: Sequence[str] = field(default_factory=tuple[str, ...])
    """The user's own stop strings."""
    once: Sequence[str] = ()
    expand: Callable[[str], str]
    """Expands the macros of a text."""
    expand_custom: bool = True
    """True to expand macros in ``custom``."""


def stop_strings(given: StopInput) -> list[str]:
    """Return the stop strings in SillyTavern's order, without duplicates."""
    user, character = f"\n{given.user_name}:", f"\n{given.character_name}:"
    found: list[str] = ["\n"] if given.context.single_line else []
    if given.context.names_as_stop_strings:
        # The user's name always, also when the model writes for the user.
        found += [character if given.impersonate else user, user]
        if given.continues_user:
            found.append(character)
        found += [f"\n{name}:" for name in given.members if name and name != given.character_name]
    found += template_stop_strings(
        given.instruct,
        given.context,
        user_name=given.user_name,
        character_name=given.character_name,
        expand=given.expand,
    )
    found += [given.expand(text) for text in given.custom] if given.expand_custom else given.custom
    found += given.once
    return [text for text in dict.fromkeys(found) if text]


def custom_stop_strings(setting: str, warn: Warn) -> list[str]:
    """Read ``custom_stopping_strings``: a JSON list; only texts count.

    Args:
        setting: The setting's text.
        warn: Called with each warning.
    """
    if not setting:
        return []
    try:
        value: object = json.loads(setting, parse_constant=_no_json)
    except (ValueError, RecursionError) as error:
        warn(f"custom_stopping_strings is not JSON and is not used: {error}")
        return []
    if not is_list(value):
        warn(f"custom_stopping_strings is not a JSON list and is not used: {setting:.60}")
        return []
    texts = [text for text in value if isinstance(text, str)]
    if len(texts) < len(value):
        warn(f"custom_stopping_strings: {len(value) - len(texts)} items are not texts and are not used")
    return [text for text in texts if text]


def _no_json(word: str) -> None:
    """Refuse JSON that Python accepts but JavaScript does not."""
    raise ValueError(f"{word} is not JSON")
