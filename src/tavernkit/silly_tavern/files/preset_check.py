"""What a preset's author probably did not mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from tavernkit.silly_tavern.chat.extension_prompts import ROLES
from tavernkit.silly_tavern.files.preset_prompts import GENERATION_TYPES, PresetPrompt
from tavernkit.silly_tavern.limits import MAX_INJECTION_DEPTH

if TYPE_CHECKING:
    from tavernkit.silly_tavern.files.preset import Preset

RESERVED_IDENTIFIERS = frozenset(
    {
        "impersonate",
        "quietPrompt",
        "groupNudge",
        "bias",
        "summary",
        "authorsNote",
        "vectorsMemory",
        "vectorsDataBank",
        "smartContext",
        "continueNudge",
        "continuePrefill",
        "controlPrompts",
        "newMainChat",
        "newChat",
        "emptyUserMessageReplacement",
    }
)
"""Identifiers a build uses itself: a preset's prompt of that name is replaced."""


def problems_of(preset: Preset) -> list[str]:
    """Everything in a preset that is legal and yet does not do what it seems to do, one sentence each."""
    return [problem for check in _CHECKS for problem in check(preset)]


def _budget(preset: Preset) -> Iterator[str]:
    if preset.openai_max_tokens >= preset.openai_max_context:
        yield (
            f"openai_max_tokens ({preset.openai_max_tokens}) leaves nothing of openai_max_context "
            f"({preset.openai_max_context}) for the prompt"
        )


def _order(preset: Preset) -> Iterator[str]:
    known = {prompt.identifier for prompt in preset.effective_prompts}
    if preset.prompt_order and not any(order.is_global and order.entries for order in preset.prompt_order):
        yield "prompt_order has no list for character_id 100001: the default order is used"
    counts = Counter(entry.identifier for entry in preset.effective_order)
    for identifier, count in counts.items():
        if identifier not in known:
            yield f"prompt_order names {identifier!r}, which is not a prompt"
        elif count > 1:
            yield f"prompt_order names {identifier!r} {count} times: only the first place counts, but each is paid for"


def _prompts(preset: Preset) -> Iterator[str]:
    counts = Counter(prompt.identifier for prompt in preset.prompts)
    for identifier, count in counts.items():
        if not identifier:
            yield f"{count} prompts have no identifier and are never sent"
        elif count > 1:
            yield f"{count} prompts are called {identifier!r}: only the first counts"
    ordered = {entry.identifier for entry in preset.effective_order if entry.enabled}
    for prompt in preset.prompts:
        if prompt.identifier in ordered:
            yield from (f"prompt {prompt.name or prompt.identifier!r} {fault}" for fault in _faults(prompt))


def _faults(prompt: PresetPrompt) -> Iterator[str]:
    if prompt.identifier in RESERVED_IDENTIFIERS:
        yield f"is called {prompt.identifier!r}, a name that SillyTavern uses itself: its text is replaced"
    unknown = [trigger for trigger in prompt.injection_trigger if trigger not in GENERATION_TYPES]
    if unknown:
        yield f"is triggered by {', '.join(unknown)}, which no generation is called"
    reason = never_sent(prompt)
    if reason is not None:
        yield reason


def never_sent(prompt: PresetPrompt) -> str | None:
    """Why SillyTavern never sends a prompt, even if it is switched on; None if it does.

    It places its own prompts by name, and of all others those whose ``system_prompt`` is false.
    """
    if prompt.in_chat:
        depth = prompt.injection_depth
        if not isinstance(depth, int) or not 0 <= depth <= MAX_INJECTION_DEPTH:
            return f"is in the chat at depth {depth!r} and is never sent: the depth must be a whole number from 0 on"
        if prompt.role not in ROLES:
            return f"is in the chat with the role {prompt.role!r} and is never sent"
    elif prompt.system_prompt is not False and prompt.identifier not in _own_prompts():
        return "is never sent: its system_prompt must be false"
    return None


@cache
def _own_prompts() -> frozenset[str]:
    from tavernkit.silly_tavern.files.preset import Preset

    return RESERVED_IDENTIFIERS | {prompt.identifier for prompt in Preset.default().prompts}


_CHECKS: tuple[Callable[[Preset], Iterator[str]], ...] = (_budget, _order, _prompts)
