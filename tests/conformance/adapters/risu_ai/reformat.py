"""Request-time role rewriting."""

from __future__ import annotations

from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._requests.reformat import DEFAULT_SYSTEM_CONTENT, DEFAULT_SYSTEM_ROLE, reformat
from tavernkit.risu_ai.errors import RequestFormatError
from tests.conformance.runner import Case


def run(case: Case) -> object:
    given, db = case.input, case.input.get("db", {})
    try:
        found = reformat(
            [PromptMessage.from_json(message) for message in given["messages"]],
            given["flags"],
            system_content=db.get("systemContentReplacement", DEFAULT_SYSTEM_CONTENT),
            system_role=db.get("systemRoleReplacement", DEFAULT_SYSTEM_ROLE),
            strict="error" in case.expected,
        )
    except RequestFormatError:
        return {"error": "TypeError"}
    return {"messages": [message.to_json() for message in found]}
