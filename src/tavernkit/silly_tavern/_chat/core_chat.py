"""The core chat: the part of the chat that goes into the prompt, with prepared texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableSequence, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import to_string, trim
from tavernkit._text.traced import added, join
from tavernkit._values import EMPTY_OBJECT, LazySequence
from tavernkit.errors import Warn
from tavernkit.silly_tavern._chat.attachments import FILE_SEPARATOR, attached_files, names_of, titles
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._scripts.prompt_scripts import PromptScripts
from tavernkit.silly_tavern._templates.templates import ReasoningSettings
from tavernkit.silly_tavern.errors import InvalidContextTemplateError

if TYPE_CHECKING:
    from tavernkit.silly_tavern._templates.handlebars.rendering import Helper, HelperCall

EMPTY_REASONING = "\u200b"
"""Placeholder for reasoning that the provider hides."""

NAMES_NONE, NAMES_DEFAULT, NAMES_FIELD, NAMES_CONTENT = -1, 0, 1, 2
"""How a preset's ``names_behavior`` shows who speaks."""


_TEXT_KEYS = ("file", "files", "append_title", "media")
"""Keys of a line's ``extra`` that add to its text."""


@dataclass(slots=True)
class CoreMessage:
    """A message of the core chat: its line, its position in the stored chat, and its text for this prompt.

    ``file_length`` counts the characters that attached files have in it.
    """

    line: ChatMessage
    index: int
    text: str
    file_length: int = 0
    additions: str = ""
    """What is in the text besides the line's own, for explanations."""


FileTexts: TypeAlias = Callable[
    [CoreMessage, Sequence[Mapping[str, object]]], tuple[str, Sequence[Mapping[str, object]]]
]
"""Returns the joined text of a message's files, and the files whose text was found."""


def core_chat(chat: Sequence[ChatMessage], *, generation_type: str, with_tools: bool) -> list[CoreMessage]:
    """Leave out hidden messages (tool calls stay if supported); a swipe drops the last one left."""
    core = [
        CoreMessage(line, index, line.mes)
        for index, line in enumerate(chat)
        if not line.is_system or is_shown(line, with_tools=with_tools)
    ]
    if generation_type == "swipe" and core:
        core.pop()
    return core


def is_shown(line: ChatMessage, *, with_tools: bool) -> bool:
    """Return True if a line is part of the core chat."""
    return not line.is_system or (with_tools and line.tool_invocations is not None)


def is_plain(line: ChatMessage) -> bool:
    """Return True if a line has neither files nor titles, so that without scripts its text is used unchanged."""
    return not line.extra or line.extra.keys().isdisjoint(_TEXT_KEYS)


def prepare_texts(
    core: MutableSequence[CoreMessage],
    places: Iterable[int],
    *,
    generation_type: str,
    scripts: PromptScripts | None,
    file_text: FileTexts,
) -> list[int]:
    """Apply the prompt-stage scripts, then put attached files before each text and titles after it.

    Args:
        core: The core chat; messages whose texts are made are replaced.
        places: Where these messages are.
        generation_type: The type of generation.
        scripts: The regex scripts.
        file_text: Returns the joined text of a message's files, and the files whose text was found.

    Returns:
        The places of texts that depend on more than the message: other builds have to make them again.
    """
    newest = len(core) - 1 + newest_depth(generation_type)
    varying: list[int] = []
    for place in places:
        old = core[place]
        line, text, file_length, additions = old.line, old.text, 0, ""
        if scripts is not None:
            before = scripts.variations
            text = scripts.message(text, is_user=line.is_user, depth=newest - place)
            if scripts.variations != before:
                varying.append(place)
        if line.extra:
            files = attached_files(line.extra)
            if files:
                attached, found = file_text(old, files)
                file_length = len(attached)
                # Files without text leave the separator in front.
                text = attached + FILE_SEPARATOR + text
                additions = f", with {names_of(found)} in front" if found else ""
            behind = titles(line.extra)
            text, additions = text + behind, additions + (", with the titles stored on it" if behind else "")
        if text is not old.text or file_length:  # a copy, as other builds may hold the message too
            core[place] = CoreMessage(line, old.index, text, file_length, additions)
    return varying


def newest_depth(generation_type: str) -> int:
    """Return the depth of the newest message, as regex scripts count it."""
    return -1 if generation_type == "continue" else 0


def add_reasoning(
    core: MutableSequence[CoreMessage],
    settings: ReasoningSettings,
    *,
    generation_type: str,
    only_name: str | None,
    expand: Callable[[str], str],
    scripts: PromptScripts | None,
) -> None:
    """Put stored reasoning before the newest texts that have some; the message being continued always gets its own.

    ``only_name`` is the speaker in a group: the reasoning of all others is left out. In a chat of two, the user's own
    messages are not. The continued message counts towards the limit, although it is not subject to it.
    """
    continuing = generation_type == "continue"
    added = 0
    for back, message in enumerate(reversed(core)):
        continued = continuing and back == 0
        if not continued and not (settings.add_to_prompts and added < settings.max_additions):
            return
        reasoning = message.line.extra.get("reasoning")
        if not is_reasoning(reasoning):
            continue
        if only_name is not None and message.line.name != only_name:
            continue
        if scripts is not None:
            reasoning = scripts.reasoning(reasoning, depth=back - 1 if continuing else back)
            if not reasoning:
                continue
        # A copy, because other builds may share the message.
        text = _with_reasoning(reasoning, message.text, settings, continued, expand)
        additions = message.additions + ", with the reasoning stored on it"
        core[len(core) - 1 - back] = CoreMessage(message.line, message.index, text, message.file_length, additions)
        added += 1


def has_reasoning(line: ChatMessage) -> bool:
    """Return True if a line has stored reasoning that may be sent."""
    return is_reasoning(line.extra.get("reasoning"))


def is_reasoning(value: object) -> TypeGuard[str]:
    """Return True for reasoning that may be sent."""
    return isinstance(value, str) and value not in ("", EMPTY_REASONING)


def role_of(line: ChatMessage) -> str:
    """Return the role that a message is sent with."""
    if line.narrator:
        return "system"
    return "user" if line.is_user else "assistant"


def name_prefix(line: ChatMessage, names_behavior: int, *, user_name: str, in_group: bool) -> str:
    """Return what a preset's names behaviour puts before a message's text."""
    if names_behavior == NAMES_CONTENT:
        return "" if line.narrator else line.name + added(": ", "names_behavior")
    if names_behavior != NAMES_DEFAULT or line.name == user_name:
        return ""
    # In a group, narrators get a name too, unlike with ``NAMES_CONTENT``.
    if in_group or (line.force_avatar and not line.narrator):
        return line.name + added(": ", "names_behavior")
    return ""


def _with_reasoning(
    reasoning: str, text: str, settings: ReasoningSettings, continued: bool, expand: Callable[[str], str]
) -> str:
    prefix = expand(settings.prefix)
    if continued and not text:
        return prefix + reasoning
    return prefix + reasoning + expand(settings.suffix) + expand(settings.separator) + text


def scan_messages(core: Sequence[CoreMessage], *, with_names: bool) -> Sequence[str]:
    """Return the core chat newest first, for the lore scan; each text is made on demand."""
    newest = len(core) - 1

    def text(place: int) -> str:
        message = core[newest - place]
        return f"{message.line.name}: {message.text}" if with_names else message.text

    return LazySequence(len(core), text)


SENDING_TYPES = ("normal", "continue")
"""Generation types that send the input box."""

UNBIASED_TYPES = ("continue", "impersonate")


@dataclass(frozen=True, slots=True)
class TurnInput:
    """The user's input and settings of a generation; ``untouched`` is for tool follow-ups and dry runs."""

    generation_type: str
    message: str
    send_if_empty: str
    user_name: str
    user_prompt_bias: str
    untouched: bool = False
    in_group: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """The chat as stored when the prompt is built, and the text that the reply begins with.

    ``bias_of_message`` is True if that text comes from a message, not from the settings.
    """

    chat: tuple[ChatMessage, ...]
    bias: str
    sent: ChatMessage | None = None
    bias_of_message: bool = False


def begin_turn(
    chat: Sequence[ChatMessage],
    turn: TurnInput,
    *,
    expand: Callable[[str], str],
    user_input_scripts: Callable[[str], str],
    warn: Warn,
) -> Turn:
    """Remove, send and apply the bias as the generation type requires; ``untouched`` changes nothing."""
    messages = list(chat)
    if turn.generation_type == "regenerate" and not turn.untouched:
        _remove_last_reply(messages, whole_round=turn.in_group)
    text = turn.message if turn.generation_type in SENDING_TYPES and not turn.untouched else ""
    if trim(text).startswith("/"):
        warn(f"the message {text!r:.40} is a slash command: commands are not run, and it is not sent")
        text = ""
    inline = inline_bias(text, warn)
    written = _bias(turn, messages, text, inline)
    bias, of_message = expand(written), bool(written) and written != turn.user_prompt_bias
    if not text and turn.generation_type == "normal" and not turn.untouched:
        # The last speaker does not matter: this text may follow another message of the user.
        text = trim(turn.send_if_empty)
    if not text:
        return Turn(tuple(messages), bias, bias_of_message=of_message)
    sent = _sent_message(text, inline, turn.user_name, expand, user_input_scripts)
    return Turn((*messages, sent), bias, sent, of_message)


def inline_bias(text: str, warn: Warn) -> str:
    """Return the texts of all ``{{bias "…"}}``, joined by spaces and with one before them.

    The whole message is parsed as a Handlebars template: if one tag is malformed, none counts.
    """
    if "{{" not in text or "bias" not in text:
        return ""
    # Handlebars, which hardly any message needs, is slow to import.
    from tavernkit.silly_tavern._templates.handlebars.parser import parse
    from tavernkit.silly_tavern._templates.handlebars.rendering import HELPERS, Names, Rendering

    found: list[str] = []

    def bias(call: HelperCall) -> str:
        # Called without an argument, a helper gets its options instead.
        value = call.params[0] if call.params else EMPTY_OBJECT
        found.append("" if value is None else to_string(value))
        return ""

    helpers: Mapping[str, Helper] = {name: helper for name, helper in HELPERS.items() if name != "trim"}
    try:
        Rendering(text, Names(lambda _name: None, {**helpers, "bias": bias}, strict=True)).start(parse(text), {})
    except InvalidContextTemplateError as error:
        warn(f"the bias of a message is ignored, because its tags are malformed: {error}")
        return ""
    return f" {' '.join(found)}" if found else ""


def without_macros(text: str) -> str:
    """Remove everything in double braces."""
    return trim(join("", _outside_macros(text)))


def _outside_macros(text: str) -> Iterator[str]:
    at = 0
    while (start := text.find("{{", at)) >= 0 and (end := text.find("}}", start + 2)) >= 0:
        yield text[at:start]
        at = end + 2
    yield text[at:]


def _remove_last_reply(messages: list[ChatMessage], *, whole_round: bool) -> None:
    """Remove the last message unless the user wrote it; in a group, all replies of the same round."""
    if not messages or messages[-1].is_user:
        return
    round_id = messages.pop().extra.get("gen_id")
    while whole_round and round_id is not None and messages:
        newest = messages[-1]
        if newest.is_user or newest.is_system or newest.extra.get("gen_id") != round_id:
            return
        messages.pop()


def _bias(turn: TurnInput, messages: Sequence[ChatMessage], text: str, inline: str) -> str:
    """Return the bias of this reply, with unexpanded macros."""
    if turn.generation_type in UNBIASED_TYPES:
        return ""
    if inline:
        return inline
    stored = ""
    if not text:
        # The newest message that may have a bias decides, even if it has none.
        looked_at = messages[:-1] if turn.generation_type == "swipe" else messages
        newest = next((each for each in reversed(looked_at) if _may_hold_bias(each)), None)
        value = newest.extra.get("bias") if newest is not None else None
        stored = value if isinstance(value, str) else ""
    return stored or turn.user_prompt_bias


def _may_hold_bias(message: ChatMessage) -> bool:
    return message.is_user or message.is_system or message.narrator


def _sent_message(
    text: str,
    bias: str,
    user_name: str,
    expand: Callable[[str], str],
    user_input_scripts: Callable[[str], str],
) -> ChatMessage:
    if bias and not without_macros(text):
        # A hidden line, which is stored for the bias only.
        return ChatMessage(name=user_name, mes="", is_system=True, extra={"bias": bias, "type": "comment"})
    stored = expand(user_input_scripts(text))
    if not bias:
        return ChatMessage(name=user_name, mes=stored, is_user=True)
    return ChatMessage(name=user_name, mes=without_macros(stored), is_user=True, extra={"bias": bias})
