"""SillyTavern's chat presets as prompt templates, and what a SillyTavern file is."""

from __future__ import annotations

import json

from tavernkit.risu_ai._files.silly_tavern_preset import NOT_SUPPORTED, file_kind, template_from_chat_preset
from tavernkit.risu_ai._prompt_template.cards import write_card
from tavernkit.risu_ai.errors import PromptTemplateError
from tests.conformance.runner import Case


def run(case: Case) -> object:
    given = case.input
    if "detect" in given:
        try:
            content = json.loads(given["detect"])
        except ValueError:
            content = None
        return {"type": file_kind(content) if isinstance(content, dict) else NOT_SUPPORTED}
    try:
        cards = template_from_chat_preset(given["preset"], warn=lambda _: None, strict="error" in case.expected)
    except PromptTemplateError:
        return {"error": "TypeError"}
    return {"promptTemplate": [write_card(card) for card in cards]}
