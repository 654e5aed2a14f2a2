"""A plan in the form that reports show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit._values import JsonObject
from tavernkit.lore import LoreResult, LoreRow
from tavernkit.prompt._explain import ExplainedOmission
from tavernkit.prompt._plan import Plan
from tavernkit.prompt._source_map import SourceMap
from tavernkit.report._source_families import FAMILIES, SourceFamily, family_of
from tavernkit.report._sources import Words, sentences_of, tokens_of_lore, words_of

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
