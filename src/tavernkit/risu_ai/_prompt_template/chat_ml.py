"""Messages written in ChatML."""

from __future__ import annotations

import re
from collections.abc import Callable

from tavernkit._text.js_values import trim
from tavernkit._values import EMPTY_OBJECT, FrozenObject
from tavernkit.risu_ai._cbs.delimited import replace_delimited
from tavernkit.risu_ai._chat.prompt_message import PromptMessage

START, END = "<|im_start|>", "<|im_end|>"
_ROLE = re.compile(r"(user|system|assistant)(?:<\|im_sep\|>| |\n)")
_THOUGHTS = re.compile(r"<Thoughts>(.+)</Thoughts>", re.DOTALL)


def parse_chat_ml(
    text: str, expand: Callable[[str], str] = str, source: FrozenObject = EMPTY_OBJECT
) -> list[PromptMessage] | None:
    """Read messages, or nothing if the text does not start as ChatML; ``expand`` is applied to each text."""
    text = trim(text)
    if not text.startswith(START):
        return None
    messages: list[PromptMessage] = []
    for piece in text.split(START):
        if not trim(piece):
            continue
        found = _ROLE.match(piece)
        role, content = (found[1], piece[found.end() :]) if found is not None else ("user", piece)
        content, thoughts = take_thoughts(trim(content).removesuffix(END))
        messages.append(PromptMessage(role=role, content=expand(content), thoughts=thoughts, source=source))
    return messages


def take_thoughts(text: str) -> tuple[str, tuple[str, ...]]:
    """Part a text from the thoughts in it: everything from the first opening to the last closing tag."""
    if "<Thoughts>" not in text:
        return text, ()
    thoughts: list[str] = []

    def take(match: re.Match[str]) -> str:
        thoughts.append(match[1])
        return ""

    rest = replace_delimited(_THOUGHTS, "</Thoughts>", take, text)
    return rest, tuple(thoughts)
