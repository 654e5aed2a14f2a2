"""Cache marks for providers that need them: where the stable parts of a prompt end."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit._values import JsonObject
from tavernkit.cache._profiles import CacheProfile, find_profile
from tavernkit.cache._spans import Span, plan_spans
from tavernkit.prompt._plan import Plan


def stable_end(spans: Sequence[Span]) -> int:
    """Return how many spans at the start will be the same in the next request."""
    last = max((number for number, span in enumerate(spans) if span.origin.in_history), default=len(spans) - 1)
    for number, span in enumerate(spans[: last + 1]):
        if span.origin.floats or any(kind != "variable" for kind in span.origin.macros.values()):
            return number
    return last + 1


def choose_breakpoints(spans: Sequence[Span], profile: CacheProfile | str) -> tuple[int, ...]:
    """Return the numbers of the spans (from 0) that get a cache mark at their end.

    The last mark is at the end of the stable part; the first is at the end of the head, which survives a cut of the
    history. Marks in between are one look-back window apart, so that the provider finds the entry of the previous
    request even if a turn added more blocks than it looks back. Prefixes below the profile's minimum get no mark.

    Args:
        spans: The request.
        profile: The provider.
    """
    known = find_profile(profile)
    if not known.breakpoints:
        return ()
    sums: list[int] = []
    for span in spans:
        sums.append((sums[-1] if sums else 0) + span.tokens)
    end = stable_end(spans)
    head = next((number for number, span in enumerate(spans) if span.origin.in_history), end)
    wanted = [end - 1, min(head, end) - 1]
    step = max(known.look_back - 1, 1)
    wanted += [end - 1 - step * back for back in range(1, known.breakpoints)]
    chosen: list[int] = []
    for place in wanted:
        if place >= 0 and place not in chosen and sums[place] >= known.minimum:
            chosen.append(place)
    return tuple(sorted(chosen[: known.breakpoints]))


def with_breakpoints(plan: Plan, profile: CacheProfile | str = "anthropic", *, ttl: str = "") -> Plan:
    """Return a plan whose request has cache marks (``cache_control``) at the ends of stable spans.

    System messages after the first message of the chat are sent as the user's, because Anthropic's API has one
    system prompt at the top: there, changes inside the chat would change the head of every request.

    Args:
        plan: The plan.
        profile: The provider: ``anthropic``, ``openrouter``, or your own. Without breakpoints nothing changes.
        ttl: How long entries live, for providers that accept it (``1h``).
    """
    known = find_profile(profile)
    spans = plan_spans(plan)
    tools = len(spans) - len(plan.enabled_blocks)
    if not known.breakpoints or plan.rendered is not None:
        return plan
    chosen = {place - tools for place in choose_breakpoints(spans, known)}
    mark: JsonObject = {"type": "ephemeral", **({"ttl": ttl} if ttl else {})}
    blocks = list(plan.blocks)
    places = [number for number, block in enumerate(blocks) if block.enabled]
    spoken = False
    for order, number in enumerate(places):
        block = blocks[number]
        if block.role != "system":
            spoken = True
        elif spoken:
            block = block.replace(role="user")
        if order in chosen:
            block = block.replace(message_metadata={**(block.message_metadata or {}), "cache_control": mark})
        blocks[number] = block
    return plan.with_blocks(blocks)
