"""Traced texts that stay the same from turn to turn, so that a source map need not build them again."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.traced import Origin, Via, give, pieces_of
from tavernkit.prompt._block import Block
from tavernkit.prompt._context import Context
from tavernkit.prompt._plan import Plan

Blocks: TypeAlias = Sequence[tuple[int, Block, object]]
"""Some blocks of a plan: the index of each in it, the block, and its line, or the slot that it shares with others."""

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
    {"char", "user", "bot", "group", "charifnotgroup", "description", "personality", "scenario", "persona", "slot"}
)
"""Macros that give the same result in every turn with the same inputs."""

_KINDS = frozenset(
    {
        *("added", "author's note", "card", "character", "context template", "group", "instruct template", "lore"),
        *("persona", "preset", "settings", "system prompt", "user"),
    }
)
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
    lines: Sequence[object]
    """The lines of the chat."""
    words: Callable[[object], object]
    """Returns the parts of a line that are sent: its text and speaker."""

    def same(self, other: TurnInputs) -> bool:
        """Return True if everything except the chat and the lore is the same."""
        if not _same(self.more, other.more):
            return False
        for name in _names(self.context):
            mine, others = getattr(self.context, name), getattr(other.context, name)
            # Settings that the application does not pass are made again for every build.
            if not _same(mine, others) and not (name == "settings" and mine == others):
                return False
        return True

    def same_line(self, other: TurnInputs, place: object) -> bool:
        """Return True if a line is the same in both, or if that is not the place of a line."""
        if not isinstance(place, int):
            return True
        if place >= len(self.lines) or place >= len(other.lines):
            return False
        mine, others = self.lines[place], other.lines[place]
        return mine is others or self.words(mine) == self.words(others)


class KnownLine:
    """A line of the chat that is a block of a plan. Blocks of a chat are the same objects in the next plan."""

    __slots__ = ("block", "chat", "line", "place", "text", "whole")

    def __init__(self, block: Block, place: int, line: object, chat: str, *, whole: bool) -> None:
        self.block = block
        self.place = place
        self.line = line
        self.chat = chat
        self.whole = whole
        """True if the block is the unchanged line."""
        self.text = ""
        """The traced line; empty until it is asked for."""


@dataclass(frozen=True, slots=True)
class KnownText:
    """A traced text of the last map."""

    text: str
    of_lore: bool
    often: bool = False
    """True if the text occurs there several times, always from the same source."""


@dataclass(frozen=True, slots=True)
class _LastMap:
    inputs: TurnInputs
    plan: Plan
    texts: Mapping[tuple[object, str], KnownText]
    given: Sequence[Origin]


class KnownTexts:
    """The texts of the last map. A text is reused if nothing it depends on can have changed."""

    def __init__(self) -> None:
        self._last: _LastMap | None = None
        self.lines: Mapping[int, KnownLine] = {}
        """Lines that were in the plan of the last map, by the ids of their blocks."""

    def find(self, inputs: TurnInputs, blocks: Blocks) -> dict[int, KnownText]:
        """Return traced texts of blocks, by the ids of these.

        Args:
            inputs: What their plan was built from.
            blocks: The blocks whose texts are wanted.
        """
        last = self._last
        if last is None or not last.inputs.same(inputs):
            return {}
        same_lore = _same(last.inputs.lore, inputs.lore)
        found: dict[int, KnownText] = {}
        seen: dict[tuple[object, str], int] = {}
        for _, block, place in blocks:
            key = place, block.content
            known = last.texts.get(key)
            if key in seen and known is not None and not known.often:
                found.pop(seen[key], None)  # either of the two could be the known one
                continue
            seen[key] = id(block)
            if known is not None and (same_lore or not known.of_lore) and last.inputs.same_line(inputs, place):
                found[seen[key]] = known
        return found

    def without_build(
        self, plan: Plan, blocks: Blocks, known: Mapping[int, KnownText]
    ) -> tuple[Plan, Sequence[str]] | None:
        """Return the traced plan of the last map, and the texts of all blocks of this one; None if some are unknown.

        Args:
            plan: The plan.
            blocks: The blocks whose texts are wanted.
            known: Texts that are known, by the ids of their blocks.
        """
        if self._last is None or len(known) < len(blocks):
            return None
        give(self._last.given)
        return self._last.plan, all_texts(plan, blocks, [known[id(block)].text for _, block, _ in blocks])

    def keep(
        self,
        inputs: TurnInputs,
        traced: Plan,
        contents: Sequence[str],
        blocks: Blocks,
        before: Mapping[int, KnownText],
        given: Iterable[Origin],
    ) -> None:
        """Keep the texts of a map.

        Args:
            inputs: What its plan was built from.
            traced: The build with traced texts.
            contents: The traced texts of all blocks of the plan.
            blocks: The blocks whose texts are wanted.
            before: Texts that were known before, by the ids of their blocks.
            given: The origins of all inputs.
        """
        texts: dict[tuple[object, str], KnownText | None] = {}
        for index, block, place in blocks:
            key, text = (place, block.content), contents[index]
            if key not in texts:
                texts[key] = before.get(id(block)) or _kept(text, in_chat=isinstance(place, int))
                continue
            # Two texts with the same words cannot be told apart, unless they come from the same source.
            known = texts[key]
            same = known is not None and pieces_of(known.text) == pieces_of(text)
            texts[key] = KnownText(text, known.of_lore, often=True) if known is not None and same else None
        kept = [origin for origin in given if origin.kind in _KINDS]
        self._last = _LastMap(inputs, traced, {key: known for key, known in texts.items() if known is not None}, kept)


def all_texts(plan: Plan, blocks: Blocks, texts: Iterable[str]) -> list[str]:
    """Return the texts of all blocks of a plan, some of them traced.

    Args:
        plan: The plan.
        blocks: The blocks with traced texts.
        texts: These texts, in the same order.
    """
    found = [block.content for block in plan.blocks]
    for (index, _, _), text in zip(blocks, texts, strict=True):
        found[index] = text
    return found


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


def _kept(text: str, *, in_chat: bool) -> KnownText | None:
    """Return a text if all of it comes from inputs that stay the same, through macros that give the same."""
    kinds = {*_KINDS, "chat"} if in_chat else _KINDS
    pure: set[int] = set()
    of_lore = False
    for start, end, origin, _, via in pieces_of(text):
        if via is not None and not _is_pure(via):
            return None
        if origin is None:
            if via is None and end - start > SHORT_TEXT:
                return None
        elif id(origin) not in pure:
            if origin.kind not in kinds or not _has_pure_macros_only(origin.text):
                return None
            pure.add(id(origin))
            of_lore = of_lore or origin.kind == "lore"
    return KnownText(text, of_lore)


def _is_pure(via: Via | None) -> bool:
    while via is not None:
        change = via.change
        # Text written by a regex script is in the text itself; a macro in it is recorded as another change.
        if change.kind != "replaced" and (change.kind != "expanded" or change.name.lower() not in _PURE_MACROS):
            return False
        via = via.before
    return True


def _has_pure_macros_only(text: str) -> bool:
    if "{{" not in text:
        return True
    found = [name.lower() for name in _MACRO.findall(text)]
    return len(found) == len(_EVERY_OPENER.findall(text)) and _PURE_MACROS.issuperset(found)
