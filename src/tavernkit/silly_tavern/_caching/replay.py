"""Replays a chat turn by turn: the prompt of every reply in it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Unpack

from tavernkit._values import thaw_object
from tavernkit.cache._spans import ReplayedTurn, plan_spans
from tavernkit.prompt._context import FixedClock
from tavernkit.silly_tavern._builder import Builder
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._context import SillyTavernContext
from tavernkit.silly_tavern._files.chat_file import ChatMetadata
from tavernkit.silly_tavern._inputs import SillyTavernInputs
from tavernkit.silly_tavern._macros.builtin.time import parse_send_date
from tavernkit.stores._variables import VariablesOverlay

TIMED = "timedWorldInfo"


def replay(builder: Builder, **inputs: Unpack[SillyTavernInputs]) -> Iterator[ReplayedTurn]:
    """Build the prompt of every reply of a chat, oldest first, as if the chat happened again.

    Timed lore, variables and the state of cache strategies carry over from turn to turn. The clock shows when the
    message before the reply was sent, and every turn has its own seed, so that macros change as they did.

    Args:
        builder: A builder whose inputs include the chat (``history``).
        inputs: Inputs that override the builder's own.
    """
    context = builder.make_context(**inputs)
    lines, header = tuple(context.log.lines), context.metadata.to_json()
    variables = VariablesOverlay(context.variables) if context.variables is not None else None
    seed = context.seed
    for line in _replies(lines):
        now = _sent(lines[line - 1], context)
        turn: SillyTavernInputs = {
            **inputs,
            "history": lines[:line],
            "message": "",
            "generation_type": "normal",
            "chat_metadata": ChatMetadata.from_json(header),
            "variables": variables,
            "on_overflow": "return",
            "seed": f"{'' if seed is None else seed}:{line}",
        }
        if now is not None:
            turn["clock"] = FixedClock(now)
        plan = builder.build(**turn)
        yield ReplayedTurn(line, plan, plan_spans(plan), now)
        header |= thaw_object(plan.metadata_changes)
        header[TIMED] = thaw_object(plan.timed_world_info)
        if variables is not None:
            plan.variables.apply(variables)


def _replies(lines: tuple[ChatMessage, ...]) -> Iterator[int]:
    for number, line in enumerate(lines):
        if number and not line.is_user and not line.is_system:
            yield number
    if lines and lines[-1].is_user:
        yield len(lines)


def _sent(line: ChatMessage, context: SillyTavernContext) -> datetime | None:
    return None if line.send_date is None else parse_send_date(line.send_date, context.timezone)
