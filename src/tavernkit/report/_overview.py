"""A plan in the form that reports show: its blocks by family of sources, and where their words come from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise

from tavernkit._arguments import require
from tavernkit._dataclass import dataclass
from tavernkit._values import JsonObject, is_mapping
from tavernkit.lore import LoreResult, LoreRow
from tavernkit.prompt._block import Block
from tavernkit.prompt._explain import ExplainedOmission
from tavernkit.prompt._plan import Plan
from tavernkit.prompt._source_map import SourceMap
from tavernkit.prompt._source_spans import Span, TextSource

MAX_UNTOUCHED = 2000
"""The maximum number of listed entries without any match, so that browsers can show the page of a very large book."""


def lore_rows(result: LoreResult | None, *, limit: int = MAX_UNTOUCHED) -> list[LoreRow]:
    """List the entries of a scan, those in the prompt first.

    Args:
        result: The result of the scan; None gives an empty list.
        limit: The maximum number of listed entries without any match.
    """
    return [] if result is None else result.rows(untouched=limit)


@dataclass(frozen=True, slots=True)
class Part:
    """One block that goes to the model."""

    position: int
    """The block's number in the prompt, from 1."""
    role: str
    """The role of the message."""
    family: SourceFamily
    """The family of sources it belongs to."""
    source: str
    """Where it came from, in words."""
    reason: str
    """Why it is in the prompt."""
    tokens: int
    """What it costs."""
    content: str
    """Its text."""
    name: str | None = None
    """The speaker's name, if the message has one."""
    words: Sequence[Words] = ()
    """The content cut into sentences, and where the origin of words changes, if sources were requested."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one family of sources costs."""

    family: SourceFamily
    """The family."""
    tokens: int
    """Tokens of its blocks together."""
    blocks: int
    """How many blocks it has."""


@dataclass(frozen=True, slots=True)
class Overview:
    """What is in a prompt, what each source costs, which lore fired, what was left out, and warnings."""

    parts: Sequence[Part]
    """What goes to the model, in order."""
    shares: Sequence[Share]
    """What each family of sources costs."""
    lore: Sequence[LoreRow]
    """The entries of the lore, those in the prompt first."""
    left_out: Sequence[ExplainedOmission]
    """What was left out, with reasons."""
    warnings: Sequence[str]
    """Warnings of the build."""
    total_tokens: int
    """Tokens of the prompt."""
    budget_tokens: int | None
    """Tokens that the prompt may have; None if there is no limit."""
    source_map: SourceMap | None = None
    """Where each character came from, if sources were requested."""
    lore_tokens: Mapping[str, int] = field(default_factory=dict[str, int])
    """The tokens of each entry in the prompt, by its id, if sources were requested."""
    hints: Sequence[str] = ()
    """Suggestions."""
    counting_note: str = ""
    """How far token counts may be off, if another tokenizer stood in for the model's."""

    def to_dict(self) -> JsonObject:
        """The same, ready for ``json``."""
        overview: JsonObject = {
            "blocks": [
                {
                    "position": part.position,
                    "role": part.role,
                    "family": part.family.name,
                    "source": part.source,
                    "reason": part.reason,
                    "tokens": part.tokens,
                    "name": part.name,
                    "content": part.content,
                }
                for part in self.parts
            ],
            "tokens_by_source": {share.family.name: share.tokens for share in self.shares},
            "lore": [
                {**row.to_dict(), **({"tokens": self.lore_tokens[row.id]} if row.id in self.lore_tokens else {})}
                for row in self.lore
            ],
            "left_out": [{"what": row.what, "reason": row.reason, "tokens": row.tokens} for row in self.left_out],
            "warnings": list(self.warnings),
            "hints": list(self.hints),
            "total_tokens": self.total_tokens,
            "budget_tokens": self.budget_tokens,
            "counting_note": self.counting_note,
        }
        if self.source_map is not None:
            overview["source_map"] = self.source_map.to_dict()
        return overview


def overview(plan: Plan, *, sources: bool = False) -> Overview:
    """Summarise a plan.

    Args:
        plan: The plan.
        sources: Also find the source of all words; this builds the prompt again.
    """
    require("plan", plan, Plan)
    explanation = plan.explain()
    source_map = plan.source_map() if sources else None
    mapped = {text.id: text.spans for text in source_map.blocks} if source_map is not None else {}
    blocks = {block.id: block for block in plan.enabled_blocks}
    parts = [
        Part(
            position=row.position,
            role=block.role,
            family=family_of(block),
            source=row.source,
            reason=row.reason,
            tokens=row.tokens or 0,
            content=block.content,
            name=block.name,
            words=tuple(sentences_of(words_of(block.content, mapped.get(block.id, ())))),
        )
        for row in explanation.blocks
        if (block := blocks.get(row.block_id)) is not None
    ]
    total, lore = explanation.total_tokens, lore_rows(plan.lore_result)
    return Overview(
        parts=parts,
        shares=_shares(parts),
        lore=lore,
        left_out=explanation.left_out,
        warnings=explanation.warnings,
        total_tokens=total if total is not None else sum(part.tokens for part in parts),
        budget_tokens=explanation.budget_tokens,
        source_map=source_map,
        lore_tokens=tokens_of_lore(source_map, lore) if source_map is not None else {},
        hints=explanation.hints,
        counting_note=explanation.counting_note,
    )


def _shares(parts: Sequence[Part]) -> list[Share]:
    found = (
        Share(family, sum(part.tokens for part in mine), len(mine))
        for family in FAMILIES
        if (mine := [part for part in parts if part.family is family])
    )
    return list(found)


_BUILDER = "the builder itself"
_SENTENCE_END = re.compile(r"""[.!?…。！？]{1,3}["'”’»)\]*_]{0,3}\s{1,9}|[。！？]|\n{1,9}""")
"""Bounded, so that a text of only dots takes no longer than others."""


@dataclass(frozen=True, slots=True)
class Words:
    """Words of a prompt that have one origin: the text of ``source`` from ``start`` to ``end``, and what changed them.

    ``how`` lists the macros and scripts that produced them, outermost first. Words that a macro generated have the
    place of the macro.
    """

    text: str
    """The words."""
    kind: str
    """The kind of span: ``verbatim``, ``expanded``, ``replaced``, ``added`` or ``aligned``."""
    how: str
    source: TextSource | None = None
    start: int = 0
    end: int = 0


def words_of(text: str, spans: Sequence[Span], start: int = 0, end: int | None = None) -> list[Words]:
    """Cut a text, or a part of it, where the origin of its words changes.

    Args:
        text: The text.
        spans: Its spans.
        start: Where the part begins.
        end: Where it ends; by default with the text.
    """
    part = (start, len(text) if end is None else end)
    return [words for span in spans for words in _words(text, span, (), part)]


def sentences_of(words: Iterable[Words]) -> Iterator[Words]:
    """Split words copied from a source into sentences, each with its own place there."""
    for each in words:
        if each.source is None or each.end - each.start != len(each.text):
            yield each
            continue
        ends = [found.end() for found in _SENTENCE_END.finditer(each.text)]
        for start, end in pairwise(dict.fromkeys((0, *ends, len(each.text)))):
            yield replace(each, text=each.text[start:end], start=each.start + start, end=each.start + end)


def tokens_of_lore(source_map: SourceMap, rows: Sequence[LoreRow]) -> Mapping[str, int]:
    """Return the tokens of each lore entry in the prompt, by the id of its row."""
    counts = {source: tokens for source, tokens in source_map.tokens_by_source().items() if source.kind == "lore"}
    found = {row.id: 0 for row in rows if row.active}
    left = [row for row in rows if row.active]
    for by_content in (True, False):  # titles may repeat; contents may have been changed
        for row in tuple(left):
            source = next((each for each in counts if _is_of(row, each, by_content=by_content)), None)
            if source is not None:
                found[row.id] = counts.pop(source)
                left.remove(row)
    return found


def _is_of(row: LoreRow, source: TextSource, *, by_content: bool) -> bool:
    same = source.title == row.title and source.name in row.book
    return same and (not by_content or source.text.endswith(row.content))


def source_label(source: TextSource | None) -> str:
    """Name a source, or the builder."""
    return _BUILDER if source is None else source.label


def _words(text: str, span: Span, outer: tuple[str, ...], part: tuple[int, int]) -> Iterator[Words]:
    low, high = max(span.start, part[0]), min(span.end, part[1])
    if low >= high:
        return
    steps = (*outer, *_step(span))
    if span.inner:
        for inner in span.inner:
            yield from _words(text, inner, steps, part)
        return
    shown, how = text[low:high], ", ".join(steps)
    if span.source is not None:
        start = span.offset + low - span.start
        yield Words(shown, span.kind, how, span.source, start, start + high - low)
        return
    written = next((leaf for each in span.written for leaf in each.leaves() if leaf.source is not None), None)
    if written is None:
        yield Words(shown, span.kind, how)
    else:
        yield Words(shown, span.kind, how, written.source, written.offset, written.offset + len(written))


def _step(span: Span) -> Iterator[str]:
    if span.kind == "expanded":
        written = (source for each in span.written for source in each.sources)
        source = next(written, None) if span.inner else None  # otherwise, it is the source of the words
        where = f" in {source.label}" if source is not None else ""
        yield f"through {{{{{span.name}}}}}{where}" if span.name else f"through a macro{where}"
    elif span.kind == "replaced":
        yield f"by the regex script {span.name}" if span.name else "changed on the way"
    elif span.kind == "aligned":
        yield "found by comparing"
    elif span.kind == "added":
        yield f"added because of {span.name}" if span.name else "added by the builder"


@dataclass(frozen=True, slots=True)
class SourceFamily:
    """Sources that share a colour; ``colour`` is for pages, ``style`` for terminals."""

    name: str
    """A short name, for programs."""
    label: str
    """The label in a legend."""
    colour: str
    style: str


PRESET = SourceFamily("preset", "preset", "#7c6ff0", "medium_purple1")
CARD = SourceFamily("card", "character card", "#2f9e6e", "spring_green3")
LORE = SourceFamily("lore", "lore", "#d9822b", "orange3")
EXAMPLE = SourceFamily("example", "example dialogue", "#8a9a2b", "dark_olive_green2")
HISTORY = SourceFamily("history", "chat history", "#2f7fd1", "deep_sky_blue1")
NOTE = SourceFamily("note", "notes and injections", "#c2477f", "hot_pink3")
PERSONA = SourceFamily("persona", "persona", "#1f9aa8", "dark_turquoise")
TOOL = SourceFamily("tool", "tools", "#8d6e4f", "rosy_brown")
OTHER = SourceFamily("other", "other", "#7a8190", "grey62")

FAMILIES = (PRESET, CARD, PERSONA, LORE, EXAMPLE, HISTORY, NOTE, TOOL, OTHER)
"""All families, in the order of a legend."""

_BY_KIND: Mapping[str, SourceFamily] = {
    "preset": PRESET,
    "preset prompt": PRESET,
    "main prompt": PRESET,
    "jailbreak": PRESET,
    "global note": PRESET,
    "start marker": PRESET,
    "post end inner format": PRESET,
    "system prompt": PRESET,
    "context template": PRESET,
    "reply line": PRESET,
    "bias": PRESET,
    "chain of thought": PRESET,
    "group instruction": PRESET,
    "continue instruction": PRESET,
    "emotion instructions": CARD,
    "image instructions": CARD,
    "chat metadata": NOTE,
    "card field": CARD,
    "description": CARD,
    "greeting": HISTORY,
    "example": EXAMPLE,
    "examples": EXAMPLE,
    "lore": LORE,
    "lore_entry": LORE,
    "lorebook": LORE,
    "history": HISTORY,
    "message": HISTORY,
    "chat": HISTORY,
    "user message": HISTORY,
    "injection": NOTE,
    "author's note": NOTE,
    "author note": NOTE,
    "depth prompt": NOTE,
    "quiet prompt": NOTE,
    "memory": NOTE,
    "persona": PERSONA,
    "persona prompt": PERSONA,
    "tool": TOOL,
    "tools": TOOL,
}

_BY_STAGE: Mapping[str, SourceFamily] = {"template": PRESET, "chat": HISTORY, "lore": LORE, "entries": PRESET}
_BY_GROUP: Mapping[str, SourceFamily] = {"examples": EXAMPLE, "lore": LORE, "history": HISTORY, "system": PRESET}


def family_of(block: Block) -> SourceFamily:
    """Return the family of a block; blocks without a known source count by their budget group."""
    source = block.source
    if not is_mapping(source):
        return _BY_KIND.get(str(source or ""), _BY_GROUP.get(block.token_budget_group, OTHER))
    kind = str(source.get("kind") or "")
    if kind == "card field" and (source.get("id") == "mes_example" or block.slot == "dialogueExamples"):
        return EXAMPLE
    for name in (kind, kind.partition(" + ")[0]):
        if name in _BY_KIND:
            return _BY_KIND[name]
    stage = _BY_STAGE.get(str(source.get("stage") or ""))
    return stage or _BY_GROUP.get(block.token_budget_group, OTHER)
