"""Requests in Cohere's format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tavernkit._text.traced import join
from tavernkit._values import JsonObject
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._models import OLD_COHERE_MODELS
from tavernkit.risu_ai._requests.messages import RequestRules
from tavernkit.risu_ai._requests.parameters import parameter_values

_ROLES: Mapping[str, str] = {"assistant": "CHATBOT", "system": "SYSTEM", "user": "USER"}
_NAMES: Mapping[str, str] = {
    "temperature": "temperature",
    "top_k": "k",
    "top_p": "p",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}


def cohere_body(rules: RequestRules, messages: Sequence[PromptMessage], *, mode: str) -> JsonObject:
    """Write a chat request: the last message apart from the others, the first system text as the preamble."""
    rest = list(messages)
    message = ""
    if rest and rest[-1].role == "user":
        message = rest.pop().content
    else:
        while rest:
            last = rest.pop()
            prefix = "" if last.role == "user" else f"{_role(last)}: "
            message = join("", (prefix, "\n", last.content, message))
            if last.role == "user":
                break
    preamble: str | None = None
    if rest and rest[0].role == "system":
        preamble = rest.pop(0).content
        if not rest:
            message, preamble = "system: " + preamble, None
    body: JsonObject = {
        "message": message,
        "chat_history": [{"role": _role(each), "message": each.content} for each in rest if each.content],
    }
    values = parameter_values(rules, _NAMES, mode=mode)
    body |= {_NAMES[name]: value for name, value in values.items()}
    if rules.model not in OLD_COHERE_MODELS:
        body["safety_mode"] = "NONE"
    if preamble is not None:
        body["preamble"] = preamble
    return body


def _role(message: PromptMessage) -> str:
    return _ROLES.get(message.role or "", "USER")
