"""Chat templates, the user's own and the named ones."""

from __future__ import annotations

from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._chat_templates.template import apply_named_template
from tavernkit.risu_ai.errors import ChatTemplateError
from tests.conformance.runner import Case


def run(case: Case) -> object:
    given = case.input
    try:
        text = apply_named_template(
            given["type"],
            [PromptMessage.from_json(message) for message in given["messages"]],
            jinja=given.get("template", ""),
            character_name=given["character_name"],
            user_name=given["user_name"],
            strict="error" in case.expected,
        )
    except ChatTemplateError:
        return {"error": case.expected.get("error", "Error")}
    return {"text": text}
