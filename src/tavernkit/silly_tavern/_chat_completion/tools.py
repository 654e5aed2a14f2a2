"""Tool calls: what they cost, and how past ones are sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import json_stringify
from tavernkit._values import (
    EMPTY_OBJECT,
    FrozenObject,
    JsonObject,
    freeze_object,
    is_mapping,
    is_sequence,
    thaw_object,
)
from tavernkit.silly_tavern._chat.chat_log import CUSTOM
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._chat.core_chat import CoreMessage
from tavernkit.silly_tavern._files.preset import Preset

REASONING_SOURCES = ("openrouter", "custom")
"""Sources that accept reasoning with a tool call."""

NO_RESULT = "[No content]"


@dataclass(frozen=True, slots=True)
class Tool:
    """A function the model may call."""

    name: str
    """The name of the function."""
    description: str = ""
    """What the tool does, for the model."""
    parameters: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """The JSON schema of its arguments."""
    display_name: str = ""
    """What people see; the name by default."""
    stealth: bool = False
    """True if it leaves no line in the chat, and the model is not asked again."""

    def to_json(self) -> JsonObject:
        """Return the tool as it is sent; the order of the keys counts, because the text is paid for."""
        parameters = thaw_object(self.parameters)
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": parameters},
        }


def read_tool(value: object) -> Tool | None:
    """Read a tool from its fields or from the form of OpenAI's API, which has them in ``function``; else None."""
    found = value.get("function", value) if is_mapping(value) else None
    if not is_mapping(found) or not isinstance(found.get("name"), str):
        return None
    parameters = found.get("parameters")
    return Tool(
        name=str(found["name"]),
        description=str(found.get("description") or ""),
        parameters=freeze_object(parameters) if is_mapping(parameters) else EMPTY_OBJECT,
        display_name=str(found.get("display_name") or ""),
        stealth=bool(found.get("stealth")),
    )


def read_tools(tools: object) -> list[Tool]:
    """Read a list of tools; anything else in it is left out."""
    listed = map(read_tool, tools) if is_sequence(tools) else ()
    return [tool for tool in listed if tool is not None]


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """A past message that called tools, and the results."""

    calls: tuple[JsonObject, ...]
    results: tuple[tuple[str, str], ...]
    reasoning: str | None = None


def reservation_text(tools: Sequence[Tool]) -> str:
    """Return the text whose tokens are reserved for the tools' definitions. SillyTavern reserves some without any."""
    if not tools:
        return "{}"
    return json_stringify({"tools": [tool.to_json() for tool in tools], "tool_choice": "auto"})


def tool_calls(message: CoreMessage, core: Sequence[CoreMessage], position: int, preset: Preset) -> ToolCalls | None:
    """Return the tool calls of a message of the core chat; None if it has none.

    ``position`` is its place in ``core``.
    """
    invocations = message.line.tool_invocations
    if not invocations:
        return None
    own = _same_model(message.line, preset)
    calls: list[JsonObject] = []
    results: list[tuple[str, str]] = []
    for invocation in invocations:
        name, parameters = _text(invocation, "name"), _text(invocation, "parameters")
        call: JsonObject = {"id": _text(invocation, "id"), "type": "function"}
        if invocation.get("type") == CUSTOM:
            call |= {"type": CUSTOM, "custom": {"name": name, "input": parameters}}
        else:
            call["function"] = {"arguments": parameters, "name": name}
        signature = _text(invocation, "signature")
        if own and signature and _is_google(preset):
            call["signature"] = signature
        calls.append(call)
        results.append((_text(invocation, "id"), _text(invocation, "result") or NO_RESULT))
    reasoning = _text(invocations[0], "reasoning") if own else ""
    return ToolCalls(tuple(calls), tuple(results), _reasoning(reasoning, core, position, preset))


def _reasoning(own: str, core: Sequence[CoreMessage], position: int, preset: Preset) -> str | None:
    if preset.chat_completion_source not in REASONING_SOURCES or not preset.show_thoughts:
        return None
    if preset.tool_reasoning_mode == "disabled" or any(each.line.is_user for each in core[position + 1 :]):
        return None
    return own or _earlier_reasoning(core, position, preset) or None


def _earlier_reasoning(core: Sequence[CoreMessage], position: int, preset: Preset) -> str:
    """Return the reasoning of an earlier reply to the same message of the user.

    In the mode ``active_chain`` only the nearest text before the calls counts, even if it has none.
    """
    for each in reversed(core[:position]):
        line = each.line
        if line.is_user:
            return ""
        if line.tool_invocations is not None:
            continue
        reasoning = line.extra.get("reasoning")
        if isinstance(reasoning, str) and reasoning and not line.narrator and _same_model(line, preset):
            return reasoning
        if preset.tool_reasoning_mode == "active_chain":
            return ""
    return ""


def _same_model(line: ChatMessage, preset: Preset) -> bool:
    return line.extra.get("api") == preset.chat_completion_source and line.extra.get("model") == preset.model


def _is_google(preset: Preset) -> bool:
    source, model = preset.chat_completion_source, preset.model
    return source in ("makersuite", "vertexai") or (source == "openrouter" and model.startswith("google/gemini"))


def _text(data: Mapping[str, object], key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""
