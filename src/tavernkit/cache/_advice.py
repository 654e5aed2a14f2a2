"""Advice on what would save most, with numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tavernkit.cache._breaks import Cause
from tavernkit.cache._spans import plan_spans, total_tokens

if TYPE_CHECKING:
    from tavernkit.cache._prompt_cache import CacheReport
    from tavernkit.prompt._plan import Plan

_REMEDIES: Final[Mapping[Cause, str]] = {
    "trimmed": 'cut the history in larger steps (strategy="cache"), or give it a larger context',
    "depth": 'put it after the chat (volatile="tail", or depth 0), or into the preset if it never changes',
    "lore": 'let lore stay where it fired (lore="freeze"), or make the entry constant',
    "note": 'show it in every prompt, or put it after the chat (volatile="tail")',
    "random": 'put the text after the chat (volatile="tail"), or use {{pick}}, which keeps its choice',
    "time": 'put the text after the chat (volatile="tail")',
    "chat": 'put the text after the chat (volatile="tail")',
    "variable": "show the variable after the chat (depth 0)",
    "examples": "pin the example dialogue, or leave it out",
    "changed": "put what changes after the chat",
    "came": "put what comes and goes after the chat",
    "went": "put what comes and goes after the chat",
    "tools": "give the tools in the same order every time",
}

_TO_SAVE_THEM: Final = 'To keep them cached, put the text after the chat (volatile="tail")'

WORTH_SAYING: Final = 0.01
"""The share of all input from which a loss is mentioned."""


def advise(report: CacheReport) -> list[str]:
    """Return one sentence for every avoidable cause that matters, worst first.

    A cause's cost is what its tokens cost more than cached ones: the saving if only this cause were removed.
    """
    turns = max(len(report.turns) - 1, 1)
    advice: list[str] = []
    for example, times, lost in report.causes:
        if not example.avoidable or lost < report.tokens * WORTH_SAYING:
            continue
        saving = lost * max(report.profile.write - report.profile.read, 0) / max(report.cost, 1)
        often = "every turn" if times >= turns else f"{times} of {turns} turns"
        remedy = _REMEDIES.get(example.cause, "")
        advice.append(
            f"{example.reason}: {lost // times:,} tokens per miss, {often}; about {saving:.0%} of the input's cost"
            + (f". To save it, {remedy}" if remedy else "")
        )
    return advice


def cache_hints(plan: Plan) -> list[str]:
    """Return hints about macros that change texts before the chat and make every turn a cache miss, with costs.

    Args:
        plan: The plan; it must know the raw texts of its files (SillyTavern's do).
    """
    spans = plan_spans(plan)
    last = max((place for place, span in enumerate(spans) if span.origin.in_history), default=-1)
    hints: list[str] = []
    for place, span in enumerate(spans[: last + 1]):
        macros = [name for name, kind in span.origin.macros.items() if kind != "variable"]
        if macros and not span.origin.in_history:
            named = " and ".join(f"{{{{{name}}}}}" for name in macros)
            verb = "makes" if len(macros) == 1 else "make"
            cost = f"{total_tokens(spans[place:]):,} tokens per turn"
            hints.append(f"{named} in {span.origin.title} {verb} every turn a miss: {cost}. {_TO_SAVE_THEM}")
    return hints
