"""A request as caches see it: spans of text in order, each with its cost and origin, and where cache marks go."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from tavernkit._values import FrozenJson, FrozenObject, JsonObject, is_mapping, is_sequence, thaw
from tavernkit.cache._profiles import CacheProfile, find_profile
from tavernkit.cache._volatile import Volatility, volatile_macros
from tavernkit.prompt._block import Message
from tavernkit.prompt._plan import Plan

if TYPE_CHECKING:
    from tavernkit.models._request import Request
    from tavernkit.prompt._block import Block


HISTORY = "history"

RawTexts: TypeAlias = Mapping[tuple[str, str], str]
"""Texts before their macros were expanded, by kind and id of their source."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a span came from."""

    kind: str = ""
    """``history``, ``lore``, ``card field``, ``preset prompt``…"""
    id: str = ""
    """Which one it is, such as a prompt's identifier or the number of a chat line."""
    title: str = ""
    """What people call it."""
    reason: str = ""
    """Why it is in the prompt."""
    group: str = ""
    """Budget group: ``system``, ``lore``, ``examples``, ``history``."""
    depth: int | None = None
    """The depth, for texts that are inserted into the chat at a depth."""
    entries: Mapping[str, str] = field(default_factory=dict[str, str])
    """Lore entries in the span, by name, with what activated each."""
    macros: Mapping[str, Volatility] = field(default_factory=dict[str, Volatility])
    """Macros that change the span from prompt to prompt."""

    @property
    def floats(self) -> bool:
        """True for text at a depth of the chat, which moves with every message."""
        return self.depth is not None or self.kind == "depth prompt"

    @property
    def in_history(self) -> bool:
        """True for messages of the chat, its greeting, and lore frozen in it."""
        return self.kind in (HISTORY, "greeting", "frozen lore")


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a request that is cached completely or up to its first change."""

    text: str
    """The text that is sent."""
    tokens: int
    """What it costs."""
    role: str = ""
    """The role of its message."""
    origin: Origin = field(default_factory=Origin)
    """Where it came from."""
    extra: str = ""
    """Other data sent with the text: a name, tool calls, attachments."""
    marked: bool = False
    """True if the request has a cache mark at its end."""

    @property
    def content(self) -> tuple[str, str, str]:
        """What a cache compares."""
        return (self.role, self.text, self.extra)


@dataclass(frozen=True, slots=True)
class ReplayedTurn:
    """The prompt of one reply of a replayed chat."""

    line: int
    """The number of the reply's line in the chat; for a chat that ends with the user, the number it will get."""
    plan: Plan
    """The prompt."""
    spans: Sequence[Span]
    """The request as caches see it."""
    at: datetime | None
    """When the message before the reply was sent, if known."""


OriginOf: TypeAlias = "Callable[[Plan, Block], Origin]"
"""Finds the origin of a block."""


def block_origin(plan: Plan, block: Block, raw_texts: RawTexts | None = None) -> Origin:
    """Return a block's origin, from its provenance.

    Args:
        plan: The plan of the block.
        block: The block.
        raw_texts: Texts of the files, which say which macros a block has.
    """
    del plan
    source = block.source
    depth = block.depth if block.in_chat or block.depth else None  # a text's blocks keep the depth they came from
    if not is_mapping(source):
        return Origin(title=block.slot or "", group=block.token_budget_group, depth=depth)
    joined = [part for part in _list(block.metadata.get("parts")) if is_mapping(part)]  # RisuAI's joined messages
    parts = joined or [source, *(part for part in _list(source.get("parts")) if is_mapping(part))]
    entries: dict[str, str] = {}
    macros: dict[str, Volatility] = {}
    for part in parts:
        named = [entry for entry in _list(part.get("entries")) if is_mapping(entry)]
        entries |= {str(entry.get("name") or entry.get("id")): str(entry.get("cause") or "") for entry in named}
        if part.get("kind") == "lore" and not named:
            entries[str(part.get("name") or part.get("id"))] = str(part.get("reason") or "")
        for name in _list(part.get("macros")):
            macros |= volatile_macros(f"{{{{{name}}}}}")
        if raw_texts:
            keys = [(str(part.get("kind")), str(part.get("id"))), *(("lore", str(entry.get("id"))) for entry in named)]
            for key in keys:
                macros |= volatile_macros(raw_texts.get(key, ""))
    first = parts[0]
    kind = str(first.get("kind") or "")
    return Origin(
        kind=HISTORY if kind == "message" else kind,  # RisuAI's name for it
        id=str(first.get("id") if first.get("id") is not None else ""),
        title=str(
            source.get("title") or source.get("name") or source.get("id") or source.get("kind") or block.slot or ""
        ),
        reason=str(source.get("reason") or ""),
        group=block.token_budget_group,
        depth=depth,
        entries=entries,
        macros=macros,
    )


def mapped_origin(plan: Plan, block: Block) -> Origin:
    """Return a block's origin with all macros in its source map, however deeply nested.

    An exact and slower ``OriginOf`` for ``plan_spans()``: the map is made by building once more.

    Args:
        plan: The plan of the block.
        block: The block.
    """
    origin = block_origin(plan, block)
    if plan.again is None:
        return origin
    found: dict[str, Volatility] = {}
    waiting = [span for text in plan.source_map().blocks if text.id == block.id for span in text.spans]
    while waiting:
        span = waiting.pop()
        if span.kind == "expanded":
            found |= volatile_macros(f"{{{{{span.name}}}}}")
        waiting += (*span.inner, *span.written)
    return replace(origin, macros=found)


def plan_spans(plan: Plan, *, raw_texts: RawTexts | None = None, origin_of: OriginOf | None = None) -> list[Span]:
    """Return the spans of a plan's request, in the order in which providers match them: tools, then messages.

    Args:
        plan: The plan.
        raw_texts: Texts of the files by kind and id of their source, instead of the plan's own: causes name macros.
        origin_of: Finds origins, instead of the provenance of blocks.
    """
    texts = raw_texts if raw_texts is not None or plan.raw_texts is None else plan.raw_texts()

    def provenance(plan: Plan, block: Block) -> Origin:
        return block_origin(plan, block, texts)

    find = origin_of if origin_of is not None else provenance
    spans = _tools(plan.sampling.get("tools"), plan.count_tokens or _guess)
    if plan.rendered is not None:
        return [*spans, *_rendered_spans(plan, find)]
    for block in plan.enabled_blocks:
        metadata = block.message_metadata or {}
        extra = {key: value for key, value in metadata.items() if key != "cache_control"}
        more: list[FrozenJson] = (
            [block.name, block.attachments, extra] if block.name or block.attachments or extra else []
        )
        spans.append(
            Span(
                text=block.content,
                tokens=_tokens(plan, block),
                role=block.role,
                origin=find(plan, block),
                extra=_json(more) if more else "",
                marked="cache_control" in metadata,
            )
        )
    return spans


def request_spans(request: Request, count: Callable[[str], int] | None = None) -> list[Span]:
    """Return the spans of a request that has no plan; their origins are their roles.

    Args:
        request: The request.
        count: Counts tokens; by default about four characters are one.
    """
    counted = count or _guess
    spans = _tools(request.tools, counted)
    if request.prompt is not None:
        return [*spans, Span(request.prompt, counted(request.prompt), origin=Origin("text", "prompt", "the prompt"))]
    for number, message in enumerate(request.messages or (), start=1):
        role, text, extra, marked = _message(message)
        origin = Origin("system" if role == "system" else HISTORY, str(number), f"message {number} ({role})")
        spans.append(Span(text, counted(text + extra), role, origin, extra, marked))
    return spans


def total_tokens(spans: Iterable[Span]) -> int:
    """Return the total tokens of spans."""
    return sum(span.tokens for span in spans)


def identities(spans: Sequence[Span]) -> list[tuple[str, str, int]]:
    """Return a name for each span that stays the same from request to request."""
    seen: Counter[tuple[str, str]] = Counter()
    found: list[tuple[str, str, int]] = []
    for span in spans:
        name = (span.origin.kind, span.origin.id)
        seen[name] += 1
        found.append((*name, seen[name]))
    return found


def _rendered_spans(plan: Plan, find: OriginOf) -> list[Span]:
    assert plan.rendered is not None
    text, at = plan.rendered.text, 0
    blocks = {block.id: block for block in plan.blocks}
    count = plan.count_tokens or _guess
    spans: list[Span] = []
    for each in (*sorted(plan.rendered.spans, key=lambda span: span.start), None):
        start = len(text) if each is None else max(each.start, at)
        if start > at:  # text of the template between two blocks
            spans.append(
                Span(text[at:start], count(text[at:start]), origin=Origin("template", str(len(spans)), "template"))
            )
        if each is not None and each.end > start:
            block = blocks.get(each.block_id)
            origin = find(plan, block) if block is not None else Origin(id=each.block_id)
            spans.append(Span(text[start : each.end], count(text[start : each.end]), origin=origin))
            at = each.end
        elif each is not None:
            at = max(at, start)
    return spans


def _message(message: Message | Mapping[str, object]) -> tuple[str, str, str, bool]:
    if isinstance(message, Message):
        metadata: FrozenObject = message.metadata or {}
        rest = {key: value for key, value in metadata.items() if key != "cache_control"}
        more = [message.name, message.attachments, rest] if message.name or message.attachments or rest else None
        return message.role, message.content, _json(more) if more else "", "cache_control" in metadata
    content = message.get("content")
    parts = [part for part in content if is_mapping(part)] if is_sequence(content) else []
    text = content if isinstance(content, str) else "\n".join(str(part.get("text") or "") for part in parts)
    rest = {key: value for key, value in message.items() if key not in ("role", "content")}
    media = [part for part in parts if part.get("type") != "text"]
    extra = _json([rest, media]) if rest or media else ""
    return str(message.get("role") or ""), text, extra, any("cache_control" in part for part in parts)


def _tools(tools: object, count: Callable[[str], int]) -> list[Span]:
    if not tools:
        return []
    text = _json(tools)
    return [Span(text, count(text), "tools", Origin("tools", "tools", "tool definitions"))]


def _tokens(plan: Plan, block: Block) -> int:
    counted = block.metadata.get("tokens")
    if isinstance(counted, int):
        return max(counted, 0)
    return (plan.count_tokens or _guess)(block.content)


def _json(value: object) -> str:
    return json.dumps(thaw(value), ensure_ascii=False, sort_keys=True, default=str)


def _list(value: object) -> Sequence[object]:
    return value if is_sequence(value) else ()


def _guess(text: str) -> int:
    return (len(text) + 3) // 4


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

    System messages after the first message of another role are sent as the user's, because Anthropic's API has one
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
