"""Requests for summaries."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tavernkit._text.js_values import trim
from tavernkit._values import JsonObject
from tavernkit.risu_ai._cbs.delimited import replace_delimited
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._limits import MAX_FILLED_TEXT
from tavernkit.risu_ai._memory.contract import MemoryInput
from tavernkit.risu_ai._prompt_template.chat_ml import parse_chat_ml

SLOT = "{{slot}}"
_THOUGHTS = re.compile(r"<Thoughts>.*?</Thoughts>", re.DOTALL)


def ask_for_summary(given: MemoryInput, text: str, prompt: str) -> str:
    """Summarise a text with the settings' prompt: ChatML with a slot, or an instruction after the text."""
    prompt = prompt or given.models.default_prompt
    if prompt.count(SLOT) * len(text) > MAX_FILLED_TEXT:
        given.warn(f"the prompt for summaries would have more than {MAX_FILLED_TEXT} characters: its slots stay empty")
        parsed = parse_chat_ml(prompt.replace(SLOT, ""), given.expand)
    else:
        parsed = parse_chat_ml(prompt.replace(SLOT, text), given.expand)
    if parsed is not None:
        request: list[JsonObject] = [{"role": each.role, "content": each.content} for each in parsed]
    else:
        request = [{"role": "user", "content": text}, {"role": "system", "content": prompt}]
    return given.summary(request)


def without_thoughts(text: str) -> str:
    """Return a model's answer without its thoughts."""
    return trim(replace_delimited(_THOUGHTS, "</Thoughts>", "", text))


def as_lines(items: Sequence[PromptMessage]) -> str:
    """Chat items as ``role: content`` lines."""
    return "\n".join(f"{item.role}: {item.content}" for item in items)
