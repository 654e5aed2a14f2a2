"""Pieces of a prompt text that know where they came from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit._text.traced import join, substitute
from tavernkit._values import FrozenObject
from tavernkit.prompt._block import Block
from tavernkit.prompt._plan import RenderedText, TextSpan

_NEWLINES = re.compile(r"\n+")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a piece came from, and what its block will be."""

    id: str
    role: str
    source: FrozenObject
    slot: str
    group: str = "system"
    depth: int | None = None


@dataclass(slots=True)
class Segment:
    """A piece of text."""

    text: str
    origin: Origin
    block: Block | None = field(default=None, repr=False, compare=False)
    """Its cached block, which is kept from turn to turn."""


def text_of(segments: Iterable[Segment]) -> str:
    """Return the segments as one text."""
    return join("", [segment.text for segment in segments])


def normalised(segments: Iterable[Segment], *, collapse_newlines: bool) -> list[Segment]:
    """Remove carriage returns and, if configured, collapse newlines, also across segments."""
    plain = [each if "\r" not in each.text else Segment(each.text.replace("\r", ""), each.origin) for each in segments]
    if not collapse_newlines:
        return [segment for segment in plain if segment.text]
    found: list[Segment] = []
    ends_line = False
    for segment in plain:
        text = substitute(_NEWLINES, "\n", segment.text)
        if ends_line:
            text = text.removeprefix("\n")
        if text:
            ends_line = text.endswith("\n")
            found.append(segment if text == segment.text else Segment(text, segment.origin))
    return found


def blocks_of(segments: Sequence[Segment]) -> list[Block]:
    """Return one block per run of segments with the same origin; their joined contents are the text."""
    runs: list[list[Segment]] = []
    for segment in segments:
        if runs and runs[-1][0].origin is segment.origin:
            runs[-1].append(segment)
        else:
            runs.append([segment])
    seen: Counter[str] = Counter()
    blocks: list[Block] = []
    for run in runs:
        first = run[0]
        origin = first.origin
        seen[origin.id] += 1
        block_id = origin.id if seen[origin.id] == 1 else f"{origin.id}#{seen[origin.id]}"
        if len(run) > 1:
            block = _block(origin, text_of(run), block_id)
        elif first.block is None or first.block.id != block_id:
            first.block = block = _block(origin, first.text, block_id)
        else:
            block = first.block
        blocks.append(block)
    return blocks


def rendered(blocks: Iterable[Block], stop_strings: Sequence[str]) -> RenderedText:
    """Return the text of the enabled blocks, with the characters of each."""
    spans: list[TextSpan] = []
    texts: list[str] = []
    position = 0
    for block in blocks:
        if block.enabled:
            texts.append(block.content)
            spans.append(TextSpan(start=position, end=position + len(block.content), block_id=block.id))
            position += len(block.content)
    return RenderedText(join("", texts), tuple(spans), tuple(stop_strings))


def _block(origin: Origin, text: str, block_id: str) -> Block:
    return Block(
        role=origin.role,
        content=text,
        id=block_id,
        slot=origin.slot,
        removable=origin.group != "system",
        # Blocks keep their place: a text has no depths.
        depth=origin.depth or 0,
        token_budget_group=origin.group,
        metadata={"source": origin.source, "identifier": origin.id},
    )
