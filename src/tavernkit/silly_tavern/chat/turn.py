"""What a generation does to the chat before a prompt is built from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tavernkit.errors import Warn
from tavernkit.silly_tavern.chat.chat_message import ChatMessage
from tavernkit.text.js_values import trim
from tavernkit.text.traced import join

SENDING_TYPES = ("normal", "continue")
"""Types that send what is in the input box."""

UNBIASED_TYPES = ("continue", "impersonate")


@dataclass(frozen=True, slots=True)
class TurnInput:
    """What the user and the settings bring to a generation; ``untouched`` is for tool follow-ups and dry runs."""

    generation_type: str
    message: str
    send_if_empty: str
    user_name: str
    user_prompt_bias: str
    untouched: bool = False
    in_group: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """The chat as it is stored when the prompt is built, and the text the reply shall begin with.

    ``bias_of_message`` says that a message asks for that text, not the settings.
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
    """Remove, send and bias as the type of generation asks; ``untouched`` leaves the chat and the input alone."""
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
        text = trim(turn.send_if_empty)
    if not text:
        return Turn(tuple(messages), bias, bias_of_message=of_message)
    sent = _sent_message(text, inline, turn.user_name, expand, user_input_scripts)
    return Turn((*messages, sent), bias, sent, of_message)


def inline_bias(text: str, warn: Warn) -> str:
    """The texts of every ``{{bias "…"}}``, joined by a blank and with one in front."""
    if "{{" not in text or "bias" not in text:
        return ""
    # Handlebars, which hardly any message needs, is slow to import.
    from tavernkit.silly_tavern.chat.message_bias import read_bias

    return read_bias(text, warn)


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
    """Drop the last message unless the user wrote it; in a group, all replies of the same round."""
    if not messages or messages[-1].is_user:
        return
    round_id = messages.pop().extra.get("gen_id")
    while whole_round and round_id is not None and messages:
        newest = messages[-1]
        if newest.is_user or newest.is_system or newest.extra.get("gen_id") != round_id:
            return
        messages.pop()


def _bias(turn: TurnInput, messages: Sequence[ChatMessage], text: str, inline: str) -> str:
    """The bias as it is written, macros and all."""
    if turn.generation_type in UNBIASED_TYPES:
        return ""
    if inline:
        return inline
    stored = ""
    if not text:
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
        return ChatMessage(name=user_name, mes="", is_system=True, extra={"bias": bias, "type": "comment"})
    stored = expand(user_input_scripts(text))
    if not bias:
        return ChatMessage(name=user_name, mes=stored, is_user=True)
    return ChatMessage(name=user_name, mes=without_macros(stored), is_user=True, extra={"bias": bias})
