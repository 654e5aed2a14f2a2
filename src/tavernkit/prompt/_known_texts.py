"""Traced texts that stay the same from turn to turn, so that a source map need not build them again."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.traced import Origin, Via, give, pieces_of
from tavernkit.prompt._block import Block, with_field
from tavernkit.prompt._context import Context
from tavernkit.prompt._plan import Plan

SHORT_TEXT = 8
"""Builders add their own separators and names; longer texts have a source."""

_OF_THE_TURN = frozenset(
    {
        *("history", "message", "variables", "clock", "seed", "drawn_seed", "random", "warn", "instrumenter", "data"),
        *("llm_options", "chat_metadata", "macro_memory", "decision", "trigger_host", "memory", "send_steps", "device"),
    }
)
"""Inputs that are new in every turn, or that no text here depends on."""

_PURE_MACROS = frozenset(
    {"char", "user", "bot", "charifnotgroup", "description", "personality", "scenario", "persona", "slot"}
)
"""Macros that give the same result in every turn with the same inputs."""

_KINDS = frozenset({"added", "card", "character", "group", "lore", "persona", "preset", "settings", "user"})
"""Kinds of sources that stay the same. Lines of the chat are compared."""

_MACRO = re.compile(r"\{\{(\w{1,40})\}\}")
_EVERY_OPENER = re.compile(r"\{\{")


@dataclass(frozen=True, slots=True)
class TurnInputs:
    """The inputs of a plan that the next one may share."""

    context: Context
    """All inputs."""
    lore: Sequence[object]
    """The entries that are active, in order."""
    more: Sequence[str]
    """Texts of inputs that are new objects each turn."""
    lines: Callable[[object], object]
    """Returns the text of a chat line by its place; None for other places."""

    def same(self, other: TurnInputs) -> bool:
        """Return True if everything except the chat is the same."""
        if not _same(self.lore, other.lore) or not _same(self.more, other.more):
            return False
        for name in _names(self.context):
            mine, others = getattr(self.context, name), getattr(other.context, name)
            # Settings that the application does not pass are made again for every build.
            if not _same(mine, others) and not (name == "settings" and mine == others):
                return False
        return True


@dataclass(frozen=True, slots=True)
class _Known:
    inputs: TurnInputs
    plan: Plan
    texts: Mapping[tuple[object, str], str]
    given: Sequence[Origin]


class KnownTexts:
    """The texts of the last map. A text is reused if nothing it depends on can have changed."""

    def __init__(self) -> None:
        self._last: _Known | None = None

    def find(
        self, inputs: TurnInputs, plan: Plan, place: Callable[[Block], object], whole: Container[int]
    ) -> Plan | None:
        """Return a plan with traced texts; None if one of them is unknown.

        Args:
            inputs: What the plan was built from.
            plan: The plan.
            place: Returns the line of a block, or the slot that it shares with others.
            whole: Ids of blocks whose texts are not needed.
        """
        last = self._last
        if last is None or not last.inputs.same(inputs):
            return None
        blocks: list[Block] = []
        for block in plan.blocks:
            if id(block) in whole or not block.enabled:
                blocks.append(block)
                continue
            where = place(block)
            text = last.texts.get((where, block.content))
            if text is None or last.inputs.lines(where) != inputs.lines(where):
                return None
            blocks.append(with_field(block, "content", text))
        give(last.given)
        return last.plan.with_blocks(blocks)

    def keep(self, inputs: TurnInputs, traced: Plan, place: Callable[[Block], object], given: Iterable[Origin]) -> None:
        """Keep the texts of a map.

        Args:
            inputs: What its plan was built from.
            traced: The plan with traced texts.
            place: Returns the line of a block, or the slot that it shares with others.
            given: The origins of all inputs.
        """
        texts: dict[tuple[object, str], str] = {}
        twice: set[tuple[object, str]] = set()
        for block in traced.blocks:
            where = place(block)
            key = where, block.content
            if key in texts:
                twice.add(key)  # the two cannot be told apart
            elif _stays(block.content, in_chat=inputs.lines(where) is not None):
                texts[key] = block.content
        for key in twice:
            del texts[key]
        kept = [origin for origin in given if origin.kind in _KINDS]
        self._last = _Known(inputs, traced, texts, kept)


def _names(context: Context) -> list[str]:
    return [each.name for each in dataclasses.fields(context) if each.name not in _OF_THE_TURN]


def _same(one: object, other: object) -> bool:
    """Return True if two inputs are the same object, or lists of the same objects, or equal texts or numbers."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, (str, int, float)):
        return one == other
    if isinstance(one, (tuple, list)) and isinstance(other, (tuple, list)):
        return len(one) == len(other) and all(map(_same, one, other))  # pyright: ignore[reportUnknownArgumentType]  # of anything
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return not one and not other
    return False


def _stays(text: str, *, in_chat: bool) -> bool:
    """Return True if all of a text comes from unchanged inputs, through macros with unchanged results."""
    kinds = {*_KINDS, "chat"} if in_chat else _KINDS
    pure: set[int] = set()
    for start, end, origin, _, via in pieces_of(text):
        if not _is_pure(via):
            return False
        if origin is None:
            if via is None and end - start > SHORT_TEXT:
                return False
        elif id(origin) not in pure:
            if origin.kind not in kinds or not _has_pure_macros_only(origin.text):
                return False
            pure.add(id(origin))
    return True


def _is_pure(via: Via | None) -> bool:
    while via is not None:
        if via.change.kind != "expanded" or via.change.name.lower() not in _PURE_MACROS:
            return False
        via = via.before
    return True


def _has_pure_macros_only(text: str) -> bool:
    if "{{" not in text:
        return True
    found = [name.lower() for name in _MACRO.findall(text)]
    return len(found) == len(_EVERY_OPENER.findall(text)) and _PURE_MACROS.issuperset(found)
