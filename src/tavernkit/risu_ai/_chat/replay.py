"""Replays a chat turn by turn: the request of every reply in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Unpack

from tavernkit._values import freeze_object
from tavernkit.cache._spans import ReplayedTurn, plan_spans
from tavernkit.prompt._context import FixedClock
from tavernkit.risu_ai._builder import Builder
from tavernkit.risu_ai._inputs import RisuAIInputs
from tavernkit.risu_ai._objects import RisuChat, RisuMessage
from tavernkit.stores._variables import VariablesOverlay

LAST_MEMORY = "lastMemory"
"""Where a chat keeps the first message of its prompt."""


def replay(builder: Builder, **inputs: Unpack[RisuAIInputs]) -> Iterator[ReplayedTurn]:
    """Build the prompt of every reply of a chat, oldest first, as if the chat happened again.

    Variables carry over from turn to turn. The clock shows when the message before the reply was sent; every turn has
    its own seed.

    Args:
        builder: A builder whose inputs include the chat (``history``).
        inputs: Inputs that override the builder's own.
    """
    context = builder.make_context(**inputs)
    chat, variables = context.chat, context.variables
    kept = VariablesOverlay(variables) if variables is not None else None
    raw = chat.raw
    for number in _replies(chat):
        now = _sent(chat.messages[number - 1]) if number else None
        turn: RisuAIInputs = {
            **inputs,
            "history": replace(chat, messages=chat.messages[:number], raw=raw),
            "message": "",
            "generation_type": "normal",
            "variables": kept,
            "on_overflow": "return",
            "seed": f"{'' if context.seed is None else context.seed}:{number}",
        }
        if now is not None:
            turn["clock"] = FixedClock(now)
        plan = builder.build(**turn)
        yield ReplayedTurn(number, plan, plan_spans(plan), now)
        raw = freeze_object({**raw, **plan.memory_data, LAST_MEMORY: plan.last_memory})
        if kept is not None:
            plan.variables.apply(kept)


def _replies(chat: RisuChat) -> Iterator[int]:
    for number, message in enumerate(chat.messages):
        if message.role == "char" and (number or len(chat.messages) == 1):
            yield number
    if chat.messages and chat.messages[-1].role == "user":
        yield len(chat.messages)


def _sent(message: RisuMessage) -> datetime | None:
    if message.time is None:
        return None
    try:
        return datetime.fromtimestamp(message.time / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return None
