"""Prompts that stand in the chat at a depth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tavernkit.silly_tavern.caching.frozen_lore import FrozenLine
from tavernkit.silly_tavern.chat.extension_prompts import ROLES, ExtensionPrompt, joined
from tavernkit.silly_tavern.files.preset_prompts import DEFAULT_INJECTION_ORDER
from tavernkit.silly_tavern.limits import MAX_INJECTION_DEPTH
from tavernkit.text.js_values import trim
from tavernkit.text.traced import join
from tavernkit.values import FrozenObject

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class InChatPrompt:
    """A prompt of the list that goes into the chat."""

    identifier: str
    source: FrozenObject
    role: str | None
    content: str
    depth: int | float | None
    order: int | float | None = None


@dataclass(frozen=True, slots=True)
class Injected:
    """One message made of all prompts that share a depth, an order value and a role."""

    role: str
    content: str
    depth: int
    order: int | float
    prompts: tuple[InChatPrompt, ...] = ()
    extensions: tuple[ExtensionPrompt, ...] = ()
    frozen: FrozenLine | None = None
    """Lore that became a line of the history; its text is final."""


def injections(
    prompts: Sequence[InChatPrompt],
    extensions: Mapping[tuple[int, int], Sequence[ExtensionPrompt]],
    expand: Callable[[str], str],
) -> list[list[Injected]]:
    """Make the messages of every depth that has any, shallow depths first; in each, the one nearest the end first.

    Extension prompts join the bucket with order value 100 and are macro-expanded here, once a depth and role.
    """
    by_depth: dict[int, list[InChatPrompt]] = {}
    for prompt in prompts:
        if prompt.content and isinstance(prompt.depth, int):
            by_depth.setdefault(prompt.depth, []).append(prompt)
    depths = sorted({*by_depth, *(depth for depth, _ in extensions)})
    found: list[list[Injected]] = []
    for depth in depths:
        if 0 <= depth <= MAX_INJECTION_DEPTH:
            messages = _at_depth(depth, by_depth.get(depth, ()), extensions, expand)
            if messages:
                found.append(messages)
    return found


def inject(newest_first: list[T], messages: Sequence[Sequence[Injected]], wrap: Callable[[Injected], T]) -> None:
    """Put the messages of :func:`injections` into a chat whose newest message comes first.

    Depth 0 is after the newest message; a depth beyond the chat is at its start, deeper ones before.
    """
    inserted = 0
    for group in messages:
        position = group[0].depth + inserted
        newest_first[position:position] = [wrap(message) for message in group]
        inserted += len(group)


def _at_depth(
    depth: int,
    prompts: Sequence[InChatPrompt],
    extensions: Mapping[tuple[int, int], Sequence[ExtensionPrompt]],
    expand: Callable[[str], str],
) -> list[Injected]:
    buckets: dict[int | float, list[InChatPrompt]] = {DEFAULT_INJECTION_ORDER: []}
    for prompt in prompts:
        buckets.setdefault(DEFAULT_INJECTION_ORDER if prompt.order is None else prompt.order, []).append(prompt)
    messages: list[Injected] = []
    for order in sorted(buckets, reverse=True):
        for number, role in enumerate(ROLES):
            own = tuple(prompt for prompt in buckets[order] if prompt.role == role)
            others = tuple(extensions.get((depth, number), ())) if order == DEFAULT_INJECTION_ORDER else ()
            parts = [join("\n", (prompt.content for prompt in own)), expand(joined(others)) if others else ""]
            content = join("\n", (trim(part) for part in parts if part))
            if content:
                messages.append(Injected(role, content, depth, order, own, others))
    return messages
