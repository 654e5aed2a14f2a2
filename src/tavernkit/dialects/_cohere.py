"""Cohere's chat API (version 1)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from tavernkit._values import Json, JsonObject
from tavernkit.dialects._messages import warn_about_loss
from tavernkit.dialects._tool_calls import ToolCall, result_object, settle_tool_results, tool_calls
from tavernkit.errors import Warn, log_warning
from tavernkit.prompt._message import Message


def convert(
    messages: Sequence[Message], *, strict_alternation: bool = False, warn: Warn = log_warning, **_: object
) -> JsonObject:
    """Return ``{"chat_history"}``: the assistant is ``CHATBOT``, everyone else ``USER``.

    With ``strict_alternation=True`` the system is ``SYSTEM`` and tool calls and results are kept.
    """
    warn_about_loss(messages, "cohere", warn, tools=not strict_alternation, attachments=True)
    if not strict_alternation:
        return {
            "chat_history": [
                {"role": "CHATBOT" if message.role == "assistant" else "USER", "message": message.content}
                for message in messages
            ]
        }
    unanswered: deque[ToolCall] = deque()
    history: list[Json] = [_turn(message, unanswered, warn) for message in settle_tool_results(messages, warn)]
    return {"chat_history": history}


def _turn(message: Message, unanswered: deque[ToolCall], warn: Warn) -> JsonObject:
    match message.role:
        case "system":
            return {"role": "SYSTEM", "message": message.content}
        case "assistant":
            turn: JsonObject = {"role": "CHATBOT", "message": message.content}
            made = tool_calls(message, warn)
            unanswered.extend(made)
            if made:
                turn["tool_calls"] = [{"name": call.name, "parameters": call.arguments} for call in made]
            return turn
        case "tool":
            call = unanswered.popleft()
            output = result_object(message.content)
            result: JsonObject = {
                "call": {"name": call.name, "parameters": call.arguments},
                "outputs": [{"result": message.content} if output is None else output],
            }
            return {"role": "TOOL", "tool_results": [result]}
        case _:
            return {"role": "USER", "message": message.content}
