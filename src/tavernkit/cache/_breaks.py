"""What broke the prefix, why it changed, and what would save most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from tavernkit._values import JsonObject
from tavernkit.cache._spans import HISTORY, Origin, Span, identities, plan_spans, total_tokens

if TYPE_CHECKING:
    from tavernkit.cache._prompt_cache import CacheReport
    from tavernkit.prompt._plan import Plan


Cause: TypeAlias = Literal[
    "new message", "trimmed", "depth", "lore", "note", "random", "time", "chat", "variable", "examples", "edited",
    "changed", "came", "went", "tools",
]  # fmt: skip
"""Why two requests differ. After a ``new message``, only what follows the chat is sent again."""

_NOTES: Final = frozenset({"2_floating_prompt", "authorsNote"})
"""Ids of the author's note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixBreak:
    """The place where a request first differs from the previous one."""

    position: int
    """The number of the first span that differs, from 1."""
    cause: Cause
    """Why the requests differ: ``lore``, ``depth``, ``random``, …"""
    reason: str
    """The cause in a sentence."""
    origin: Origin
    """The origin of the span that caused the break."""
    lost_tokens: int
    """Tokens after the break that were sent before but cannot come from the cache."""

    @property
    def avoidable(self) -> bool:
        """False if the chat only continued."""
        return self.cause != "new message"

    def to_dict(self) -> JsonObject:
        """All fields, ready for ``json``."""
        return {
            "position": self.position,
            "cause": self.cause,
            "reason": self.reason,
            "source": self.origin.title,
            "kind": self.origin.kind,
            "id": self.origin.id,
            "lost_tokens": self.lost_tokens,
        }


def common_spans(before: Sequence[Span], after: Sequence[Span]) -> int:
    """Return how many spans at the start of two requests are the same."""
    count = 0
    for old, new in zip(before, after, strict=False):
        if old.content != new.content:
            break
        count += 1
    return count


def common_tokens(before: Sequence[Span], after: Sequence[Span]) -> int:
    """Return the tokens of the longest common prefix of two requests; partly equal spans count in part."""
    whole = common_spans(before, after)
    tokens = sum(span.tokens for span in after[:whole])
    if whole < min(len(before), len(after)):
        old, new = before[whole], after[whole]
        if (old.role, old.extra) == (new.role, new.extra) and new.text:
            tokens += new.tokens * _common_characters(old.text, new.text) // len(new.text)
    return tokens


def find_break(before: Sequence[Span], after: Sequence[Span]) -> PrefixBreak | None:
    """Return where and why a request differs from the previous one; None if it only extends it.

    Args:
        before: The previous request.
        after: The request.
    """
    at = common_spans(before, after)
    if at == len(before):
        return None
    cause, origin, reason = _why(before, after, at)
    sent = Counter(span.content for span in before[at:])
    lost = 0
    for span in after[at:]:
        if sent[span.content] > 0:
            sent[span.content] -= 1
            lost += span.tokens
    return PrefixBreak(position=at + 1, cause=cause, reason=reason, origin=origin, lost_tokens=lost)


def _why(before: Sequence[Span], after: Sequence[Span], at: int) -> tuple[Cause, Origin, str]:
    old, new = before[at], after[at] if at < len(after) else None
    ids_before, ids_after = identities(before), identities(after)
    stays = ids_before[at] in ids_after
    if new is not None and ids_before[at] == ids_after[at]:
        return _explain_change(old, new)
    new_is_known = new is not None and ids_after[at] in ids_before
    if not stays and not (new is not None and not new_is_known and new.origin.kind != HISTORY):
        return _explain_removal(old)
    if new is not None and not new_is_known:
        if new.origin.kind != HISTORY:
            return _came(new)
        if any(span.origin.in_history for span in before[at:]):
            return _inside_the_chat(old)
        return "new message", new.origin, f"{new.origin.title} is new; what follows the chat moves with it"
    if old.origin.floats or (new is not None and new.origin.in_history and not old.origin.in_history):
        return _inside_the_chat(old)
    if old.origin.entries:
        return "lore", old.origin, f"lore moved: {_names(old.origin.entries)}"
    return "changed", old.origin, f"{old.origin.title} moved"


def _inside_the_chat(span: Span) -> tuple[Cause, Origin, str]:
    origin = span.origin
    where = f"in the chat at depth {origin.depth}" if origin.depth is not None else "inside the chat"
    return "depth", origin, f"{origin.title} is {where}: every message moves it"


def _explain_removal(span: Span) -> tuple[Cause, Origin, str]:
    origin = span.origin
    if origin.kind in (HISTORY, "greeting", "start marker"):
        return "trimmed", origin, f"{origin.title} is no longer in the prompt: the oldest messages make room"
    if origin.group == "examples" or origin.id == "newChat":
        return "examples", origin, f"{origin.title} is no longer in the prompt: example dialogue makes room"
    if origin.entries:
        return "lore", origin, f"lore dropped out: {_names(origin.entries)}"
    if origin.id in _NOTES:
        return "note", origin, f"{origin.title} is not in every prompt"
    return "went", origin, f"{origin.title} is no longer in the prompt"


def _came(span: Span) -> tuple[Cause, Origin, str]:
    origin = span.origin
    if origin.entries:
        return "lore", origin, f"new lore: {_names(origin.entries)}{_where(origin)}"
    if origin.id in _NOTES:
        return "note", origin, f"{origin.title} is not in every prompt"
    return "came", origin, f"{origin.title} is new in the prompt{_where(origin)}"


def _explain_change(old: Span, new: Span) -> tuple[Cause, Origin, str]:
    origin = new.origin
    if origin.kind == "tools":
        return "tools", origin, "the tools, or their order, changed"
    came = {name: why for name, why in new.origin.entries.items() if name not in old.origin.entries}
    went = {name: why for name, why in old.origin.entries.items() if name not in new.origin.entries}
    if came or went:
        parts = [f"new lore: {_names(came)}"] if came else []
        parts += [f"lore dropped out: {_names(went)}"] if went else []
        return "lore", origin, "; ".join(parts) + (_where(origin) or f" ({origin.title})")
    for macro, kind in origin.macros.items():
        if kind == "variable":
            return "variable", origin, f"a variable that {origin.title} shows changed ({{{{{macro}}}}})"
        return kind, origin, f"{{{{{macro}}}}} in {origin.title} gives another text in every prompt"
    if origin.id in _NOTES:
        return "note", origin, f"{origin.title} changed"
    if origin.kind == HISTORY:
        if old.text.strip() == new.text.strip():  # the newest message of a text prompt has no line break at its end
            return "new message", origin, f"the chat continued after {origin.title}"
        how = "a script, a macro or the instruct template rewrites it"
        return "edited", origin, f"{origin.title} changed: it was edited, or {how}"
    return "changed", origin, f"{origin.title} changed"


def _where(origin: Origin) -> str:
    return f" at depth {origin.depth}" if origin.depth is not None else ""


def _names(entries: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({why})" if why else name for name, why in entries.items())


def _common_characters(left: str, right: str) -> int:
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count


def worst_first(breaks: Iterable[PrefixBreak]) -> list[tuple[PrefixBreak, int, int]]:
    """Add up breaks with the same cause and source: for each, the number of requests and the tokens lost."""
    totals: dict[tuple[str, str, str], tuple[PrefixBreak, int, int]] = {}
    for each in breaks:
        # Messages differ in every request: trimmed ones are combined into one line.
        kind, name = ("", "") if each.origin.in_history else (each.origin.kind, each.origin.id)
        key = (each.cause, kind, name)
        _, times, lost = totals.get(key, (each, 0, 0))
        totals[key] = (each, times + 1, lost + each.lost_tokens)
    return sorted(totals.values(), key=lambda total: (-total[2], total[0].reason))


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
