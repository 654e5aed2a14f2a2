"""A prompt as JSON for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tavernkit._values import Json, JsonObject
from tavernkit.cache import PromptCache
from tavernkit.cache._spans import plan_spans
from tavernkit.lore import LoreRow
from tavernkit.prompt._plan import Plan
from tavernkit.report._overview import FAMILIES, family_of, words_of
from tavernkit.studio._changes import Said, message_changes
from tavernkit.studio._places import Places, entry_count
from tavernkit.studio._workspace import State

MAX_UNTOUCHED: Final = 200
"""The maximum number of lore entries without any match in a build; the lore lab lists more."""


@dataclass(frozen=True, slots=True)
class BuiltPrompt:
    """A built prompt, and the documents that it was built from."""

    id: str
    state: State
    plan: Plan
    platform: str
    revision: int
    speaker: str
    milliseconds: float = 0.0

    @property
    def said(self) -> list[Said]:
        """The role and text of every message; a text prompt is one message."""
        if self.plan.rendered is not None:
            return [("", self.plan.rendered.text)]
        return [(message.role, message.content) for message in self.plan.messages]


def build_view(look: BuiltPrompt, before: BuiltPrompt | None) -> JsonObject:
    """Return a prompt as JSON.

    Args:
        look: The prompt.
        before: The prompt that it is compared with.
    """
    plan = look.plan
    explanation = plan.explain()
    blocks = {block.id: block for block in plan.enabled_blocks}
    shown: list[Json] = []
    shares: dict[str, list[int]] = {}
    for row in explanation.blocks:
        block = blocks.get(row.block_id)
        if block is None:
            continue
        family = family_of(block).name
        share = shares.setdefault(family, [0, 0])
        share[0] += row.tokens or 0
        share[1] += 1
        shown.append(
            {
                "id": block.id,
                "position": row.position,
                "role": block.role,
                "name": block.name,
                "family": family,
                "source": row.source,
                "reason": row.reason,
                "tokens": row.tokens or 0,
                "content": block.content,
            }
        )
    total = explanation.total_tokens
    return {
        "plan": look.id,
        "revision": look.revision,
        "superseded": False,
        "ms": round(look.milliseconds, 1),
        "kind": "text" if plan.rendered is not None else "chat",
        "error": None,
        "platform": look.platform,
        "speaker": look.speaker,
        "blocks": shown,
        "messages": _messages(look),
        "text": plan.rendered.text if plan.rendered is not None else None,
        "budget": {
            "total": total if total is not None else sum(tokens for tokens, _ in shares.values()),
            "limit": explanation.budget_tokens,
            "response": _response(plan),
            "note": plan.counting_note,
        },
        "shares": [
            {"family": family.name, "tokens": shares[family.name][0], "blocks": shares[family.name][1]}
            for family in FAMILIES
            if family.name in shares
        ],
        "left_out": [{"what": row.what, "reason": row.reason, "tokens": row.tokens} for row in explanation.left_out],
        "warnings": list(explanation.warnings),
        "hints": list(explanation.hints),
        "stop": _stop(plan),
        "lore": lore_view(look),
        "changes": _changes(look, before),
    }


def failed_view(message: str, code: str, *, revision: int, platform: str) -> JsonObject:
    """Return the JSON for a prompt that could not be built.

    Args:
        message: Why, for people.
        code: Why, for programs.
        revision: The revision of the documents.
        platform: The platform of the build.
    """
    return {
        "plan": None,
        "revision": revision,
        "superseded": False,
        "ms": 0,
        "kind": "chat",
        "error": {"message": message, "code": code},
        "platform": platform,
        "speaker": "",
        "blocks": [],
        "messages": [],
        "text": None,
        "budget": {"total": 0, "limit": None, "response": None, "note": ""},
        "shares": [],
        "left_out": [],
        "warnings": [],
        "hints": [],
        "stop": [],
        "lore": {"active": 0, "total": 0, "listed": 0, "rows": []},
        "changes": {"since": None, "same": True, "messages": []},
    }


def lore_view(look: BuiltPrompt) -> JsonObject:
    """Return the lore of a prompt: what fired and why others did not."""
    result = look.plan.lore_result
    rows = [] if result is None else result.rows(untouched=MAX_UNTOUCHED)
    places = Places(look.state)
    return {
        "active": sum(row.active for row in rows),
        "total": max(entry_count(look.state), len(rows)),
        "listed": len(rows),
        "rows": [lore_row(row, places) for row in rows],
    }


def lore_row(row: LoreRow, places: Places) -> JsonObject:
    """Return a row of lore with the place of its entry.

    Args:
        row: The row.
        places: Finds entries in the documents.
    """
    document, pointer = places.entry(row)
    return {
        "id": row.id,
        "title": row.title,
        "book": row.book,
        "active": row.active,
        "reason": row.reason,
        "keys": list(row.keys),
        "document": document,
        "pointer": pointer,
    }


def sources_view(look: BuiltPrompt) -> JsonObject:
    """Return where every character of a prompt comes from. Offsets are in UTF-16 units, as JavaScript counts."""
    found = look.plan.source_map()
    places = Places(look.state)
    sources: list[Json] = []
    numbers: dict[str, int] = {}
    tokens: dict[str, int] = {}
    costs: dict[str, list[JsonObject]] = {"lore": []}
    for source, count in found.tokens_by_source().items():
        document, pointer = places.source(source)
        row: JsonObject = {"document": document, "pointer": pointer, "title": source.title, "tokens": count}
        costs.setdefault(source.kind, []).append(row)
        tokens[source.id] = count

    def spans(text: str, mapped: Sequence[object]) -> list[Json]:
        described: list[Json] = []
        at = 0
        for words in words_of(text, mapped):  # pyright: ignore[reportArgumentType]  # spans of the map
            length = utf16_length(words.text)
            row: JsonObject = {"start": at, "end": at + length, "kind": words.kind, "source": None, "how": words.how}
            if words.source is not None:
                source = words.source
                if source.id not in numbers:
                    numbers[source.id] = len(sources)
                    document, pointer = places.source(source)
                    sources.append(
                        {
                            "document": document,
                            "pointer": pointer,
                            "kind": source.kind,
                            "title": source.title,
                            "label": source.label,
                            "tokens": tokens.get(source.id, 0),
                        }
                    )
                row["source"] = numbers[source.id]
                row["from"] = utf16_length(source.text[: words.start])
                row["to"] = utf16_length(source.text[: words.end])
            described.append(row)
            at += length
        return described

    messages: list[Json] = [
        {"index": index, "spans": spans(text.text, text.spans)} for index, text in enumerate(found.messages)
    ]
    blocks: list[Json] = [{"id": text.id, "spans": spans(text.text, text.spans)} for text in found.blocks]
    return {
        "plan": look.id,
        "exact": found.exact,
        "sources": sources,
        "messages": messages,
        "blocks": blocks,
        "entries": [{**each, "pointer": str(each["pointer"] or "").rpartition("/")[0]} for each in costs["lore"]],
        "fields": [each for kind, rows in costs.items() if kind != "lore" for each in rows],
    }


def cache_view(look: BuiltPrompt, earlier: Sequence[Plan], label: str, profile: str) -> JsonObject:
    """Return what a provider's cache would have of a prompt.

    Args:
        look: The prompt.
        earlier: Prompts of the previous turns, oldest first.
        label: What the last of them was, in words.
        profile: The provider.
    """
    cache = PromptCache(profile)
    for plan in earlier:
        cache.send(plan)
    spans = plan_spans(look.plan)
    turn = cache.send(spans)
    parts: list[Json] = []
    used = 0
    for span in spans:
        parts.append(
            {
                "label": span.origin.title or span.origin.kind or span.role,
                "kind": span.origin.kind,
                "tokens": span.tokens,
                "reused": used + span.tokens <= turn.cached_tokens,
            }
        )
        used += span.tokens
    broken = turn.broken
    return {
        "profile": cache.profile.name,
        "tokens": turn.tokens,
        "cached": turn.cached_tokens,
        "common": turn.common_tokens,
        "minimum": cache.profile.minimum,
        "share": round(turn.share, 4),
        "before": label or None,
        "broken": None
        if broken is None
        else {
            "reason": broken.reason,
            "source": broken.origin.title,
            "cause": broken.cause,
            "lost_tokens": broken.lost_tokens,
            "avoidable": broken.avoidable,
        },
        "parts": parts,
        "advice": list(cache.report.advice()),
    }


def _messages(look: BuiltPrompt) -> list[Json]:
    plan = look.plan
    if plan.rendered is not None:
        return [
            {"role": "", "name": None, "content": plan.rendered.text, "blocks": [b.id for b in plan.enabled_blocks]}
        ]
    owners: Mapping[int, str] = {}
    enabled = plan.enabled_blocks
    if len(enabled) == len(plan.messages):
        owners = {index: block.id for index, block in enumerate(enabled)}
    return [
        {
            "role": message.role,
            "name": message.name,
            "content": message.content,
            "blocks": [owners[index]] if index in owners else [],
        }
        for index, message in enumerate(plan.messages)
    ]


def _stop(plan: Plan) -> list[Json]:
    if plan.rendered is not None:
        return list(plan.rendered.stop_sequences)
    stop = plan.sampling.get("stop") or plan.llm_options.get("stop")
    if isinstance(stop, str):
        return [stop]
    return [each for each in stop if isinstance(each, str)] if isinstance(stop, Sequence) else []


def _response(plan: Plan) -> int | None:
    for options in (plan.sampling, plan.llm_options):
        for name in ("max_tokens", "max_completion_tokens"):
            value = options.get(name)
            if isinstance(value, int):
                return value
    return None


def _changes(look: BuiltPrompt, before: BuiltPrompt | None) -> JsonObject:
    if before is None:
        return {"since": None, "same": True, "messages": []}
    old, new = before.said, look.said
    return {"since": before.id, "same": old == new, "messages": [] if old == new else message_changes(old, new)}


def utf16_length(text: str) -> int:
    """Return the length of a text in UTF-16 units."""
    return len(text) + sum(character > "\uffff" for character in text) if not text.isascii() else len(text)
