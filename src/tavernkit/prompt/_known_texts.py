"""Traced texts that stay the same from turn to turn, so that a source map need not build them again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.regex_scripts import Stretch
from tavernkit._text.traced import Origin, give, pieces_of
from tavernkit.prompt._block import Block
from tavernkit.prompt._context import Context
from tavernkit.prompt._line_forms import KnownLine, LineForm
from tavernkit.prompt._plan import Plan
from tavernkit.prompt._steady_texts import SHORT_TEXT, STEADY_KINDS, has_one_branch, has_pure_macros_only, is_pure

Blocks: TypeAlias = Sequence[tuple[int, Block, object]]
"""Some blocks of a plan: the index of each in it, the block, and its line, or the slot that it shares with others."""

MakeReplay: TypeAlias = Callable[[bool], Callable[[str, Stretch], str]]
"""Returns what repeats regex scripts in traced messages: in the user's, or in others."""

MAX_TEXTS = 1000
"""Of so many texts, only those of the last map are kept."""

_OF_THE_TURN = frozenset(
    {
        *("history", "message", "variables", "clock", "seed", "drawn_seed", "random", "warn", "instrumenter", "data"),
        *("llm_options", "chat_metadata", "macro_memory", "decision", "trigger_host", "memory", "send_steps", "device"),
    }
)
"""Inputs that are new in every turn, or that no text here depends on."""


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
        names = _names(type(self.context))
        read = attrgetter(*names)
        for name, mine, others in zip(names, read(self.context), read(other.context), strict=True):
            # Settings that the application does not pass are made again for every build.
            if mine is not others and not _same(mine, others) and not (name == "settings" and mine == others):
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


@dataclass(frozen=True, slots=True)
class KnownText:
    """A traced text of the last map."""

    text: str
    depends: bool
    """True if it depends on the lore that is active, or on which other texts there are."""
    often: bool = False
    """True if the text occurs there several times, always from the same source."""


@dataclass(frozen=True, slots=True)
class _LastMap:
    inputs: TurnInputs
    plan: Plan | None
    texts: Mapping[tuple[object, str], KnownText]
    forms: Mapping[object, LineForm]
    slots: set[object]
    given: Sequence[Origin]
    scripts: MakeReplay | None


class KnownTexts:
    """The texts of the last map. A text is reused if nothing it depends on can have changed."""

    def __init__(self) -> None:
        self._last: _LastMap | None = None
        self._compared: tuple[TurnInputs, _LastMap, bool] | None = None
        self.lines: Mapping[int, KnownLine] = {}
        """Lines that were in the plan of the last map, by the ids of their blocks."""
        self.formless: set[object] = set()
        """Kinds of lines that have no form."""

    def has(self, inputs: TurnInputs | None) -> bool:
        """Return True if the last map was made from these inputs."""
        return inputs is not None and self._last_with(inputs) is not None

    def forms(self, inputs: TurnInputs | None) -> Mapping[object, LineForm]:
        """Return the forms of lines that are known, by the kinds of lines that they are for.

        Args:
            inputs: What their plan was built from; None if nothing can be known.
        """
        last = self._last_with(inputs) if inputs is not None else None
        return last.forms if last is not None else {}

    def _last_with(self, inputs: TurnInputs) -> _LastMap | None:
        """Return the last map if it was made from the same inputs; a map asks more than once."""
        last, compared = self._last, self._compared
        if last is None:
            return None
        if compared is None or compared[0] is not inputs or compared[1] is not last:
            self._compared = compared = inputs, last, last.inputs.same(inputs)
        return last if compared[2] else None

    def find(self, inputs: TurnInputs, blocks: Blocks) -> dict[int, KnownText]:
        """Return traced texts of blocks, by the ids of these.

        Args:
            inputs: What their plan was built from.
            blocks: The blocks whose texts are wanted.
        """
        last = self._last_with(inputs)
        if last is None:
            return {}
        same_lore = _same(last.inputs.lore, inputs.lore) and last.slots == _slots(blocks)
        found: dict[int, KnownText] = {}
        seen: dict[tuple[object, str], int] = {}
        for _, block, place in blocks:
            key = place, block.content
            known = last.texts.get(key)
            if key in seen and known is not None and not known.often:
                found.pop(seen[key], None)  # either of the two could be the known one
                continue
            seen[key] = id(block)
            if known is not None and (same_lore or not known.depends) and last.inputs.same_line(inputs, place):
                found[seen[key]] = known
        return found

    def without_build(
        self, plan: Plan, blocks: Blocks, known: Mapping[int, KnownText]
    ) -> tuple[Plan | None, Sequence[str], MakeReplay | None] | None:
        """Return the traced plan of the last map (if kept), the texts of all blocks of this one, and its scripts.

        None if some texts are unknown.

        Args:
            plan: The plan.
            blocks: The blocks whose texts are wanted.
            known: Texts that are known, by the ids of their blocks.
        """
        if self._last is None or len(known) < len(blocks):
            return None
        give(self._last.given)
        texts = all_texts(plan, blocks, [known[id(block)].text for _, block, _ in blocks])
        return self._last.plan, texts, self._last.scripts

    def keep(
        self,
        inputs: TurnInputs,
        traced: Plan | None,
        contents: Sequence[str],
        blocks: Blocks,
        before: Mapping[int, KnownText],
        forms: Mapping[object, LineForm],
        given: Iterable[Origin],
        scripts: MakeReplay | None = None,
    ) -> None:
        """Keep the texts of a map.

        Args:
            inputs: What its plan was built from.
            traced: The build with traced texts, if maps of next turns ask for more than its texts.
            contents: The traced texts of all blocks of the plan.
            blocks: The blocks whose texts are wanted.
            before: Texts that were known before, by the ids of their blocks.
            forms: The forms of lines.
            given: The origins of all inputs.
            scripts: Repeats what regex scripts did to messages.
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
            texts[key] = KnownText(text, known.depends, often=True) if known is not None and same else None
        kept = [origin for origin in given if origin.kind in STEADY_KINDS]
        found = {key: known for key, known in texts.items() if known is not None}
        last = self._last_with(inputs)
        if last is not None and len(last.texts) < MAX_TEXTS:
            # What has no room in one turn may come back in another.
            others = [(key, known) for key, known in last.texts.items() if not isinstance(key[0], int)]
            found = {key: known for key, known in others if key not in texts and not known.depends} | found
        self._last = _LastMap(inputs, traced, found, forms, _slots(blocks), kept, scripts)


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


def _slots(blocks: Blocks) -> set[object]:
    return {place for _, _, place in blocks if not isinstance(place, int)}


@cache
def _names(context: type[Context]) -> Sequence[str]:
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
    kinds = {*STEADY_KINDS, "chat"} if in_chat else STEADY_KINDS
    pure: set[int] = set()
    depends = False
    for start, end, origin, _, via in pieces_of(text):
        if via is not None and not is_pure(via):
            return None
        if origin is None:
            if via is None and end - start > SHORT_TEXT:
                return None
        elif id(origin) not in pure:
            if origin.kind not in kinds or not has_pure_macros_only(origin.text):
                return None
            pure.add(id(origin))
            depends = depends or origin.kind == "lore" or not has_one_branch(origin, text)
    return KnownText(text, depends)
