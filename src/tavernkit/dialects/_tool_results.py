"""Moves tool results to where providers expect them: right after the turn with the calls, one per call."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

from tavernkit.dialects._tool_calls import call_names, tool_call_id
from tavernkit.errors import Warn
from tavernkit.prompt._message import Message

NO_RESULT = '{"ok":false,"errors":[{"code":"NO_RESULT","message":"the tool gave no result"}]}'
"""Replaces a missing result, because providers refuse requests without one."""


def settle_tool_results(messages: Sequence[Message], warn: Warn) -> list[Message]:
    """Move tool results to their calls, answer open calls with ``NO_RESULT``, turn stray results into user text.

    Every assistant message is followed by exactly one tool message for each of its calls, in the order of the calls.
    """
    calls = {position: call_names(message) for position, message in enumerate(messages) if message.role == "assistant"}
    answers, strays = _match(messages, calls)
    settled: list[Message] = []
    for position, message in enumerate(messages):
        if message.role != "tool":
            settled.append(message)
            settled += [
                answers.get((position, index)) or _no_result(call_id, name, warn)
                for index, (call_id, name) in enumerate(calls.get(position, ()))
            ]
        elif position in strays:
            warn(f"tool message {position} answers no call in this prompt and is sent as user text")
            settled.append(message.replace(role="user", metadata=None))
    return settled


def _match(
    messages: Sequence[Message], calls: dict[int, list[tuple[str, str]]]
) -> tuple[dict[tuple[int, int], Message], set[int]]:
    # Ids may repeat: the latest turn is answered first, its calls in their order.
    waiting: defaultdict[str, list[deque[tuple[int, int]]]] = defaultdict(list)
    answers: dict[tuple[int, int], Message] = {}
    strays: set[int] = set()
    for position, message in enumerate(messages):
        for index, (call_id, _) in enumerate(calls.get(position, ())):
            turns = waiting[call_id]
            if not turns or turns[-1][-1][0] != position:
                turns.append(deque())
            turns[-1].append((position, index))
        if message.role == "tool":
            turns = waiting[tool_call_id(message)]
            if not turns:
                strays.add(position)
                continue
            answers[turns[-1].popleft()] = message
            if not turns[-1]:
                turns.pop()
    return answers, strays


def _no_result(call_id: str, name: str, warn: Warn) -> Message:
    warn(f"the call {call_id!r} of tool {name!r} has no result in this prompt; a result that says so is sent")
    return Message(role="tool", content=NO_RESULT, metadata={"tool_call_id": call_id})
