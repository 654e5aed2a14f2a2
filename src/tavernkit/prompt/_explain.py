"""Explains a plan: what is in it, where that came from, what it costs, and what was left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from html import escape
from typing import TYPE_CHECKING

from tavernkit._dataclass import dataclass
from tavernkit._values import JsonObject, is_mapping
from tavernkit.prompt._block import Block, Moved, Omission

if TYPE_CHECKING:
    from tavernkit.prompt._plan import Plan

PREVIEW_CHARACTERS = 48


@dataclass(frozen=True, slots=True)
class ExplainedBlock:
    """One block that goes to the model."""

    position: int
    """The block's number in the prompt, from 1."""
    role: str
    """The role of the message."""
    tokens: int | None
    """What it costs; None if tokens were not counted."""
    source: str
    """Where it came from, in words."""
    reason: str
    """Why it is in the prompt."""
    preview: str
    """The start of its text."""
    block_id: str
    """The id of the block in the plan."""


@dataclass(frozen=True, slots=True)
class ExplainedOmission:
    """One thing that does not go to the model."""

    what: str
    """What was left out, in words."""
    reason: str
    """Why it was left out."""
    tokens: int | None
    """What it would have cost, if that is known."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a plan. Print it for a table, or read the rows."""

    blocks: Sequence[ExplainedBlock]
    """The blocks that go to the model, in order."""
    left_out: Sequence[ExplainedOmission]
    """What was left out, with reasons."""
    total_tokens: int | None
    """Tokens of the prompt; None if they were not counted."""
    budget_tokens: int | None
    """Tokens that the prompt may have; None if there is no limit."""
    warnings: Sequence[str]
    """Warnings of the build."""
    counting_note: str = ""
    """How far token counts may be off, if the model's own tokenizer was not available."""
    moved: Sequence[Moved] = ()
    """What a cache strategy moved away from the platform's own place."""
    hints: Sequence[str] = ()
    """Suggestions: texts that defeat a prompt cache."""

    def to_dict(self) -> JsonObject:
        """The rows, ready for ``json``."""
        return {
            "blocks": [asdict(row) for row in self.blocks],
            "left_out": [asdict(row) for row in self.left_out],
            "total_tokens": self.total_tokens,
            "budget_tokens": self.budget_tokens,
            "warnings": list(self.warnings),
            "counting_note": self.counting_note,
            "moved": [asdict(row) for row in self.moved],
            "hints": list(self.hints),
        }

    def __str__(self) -> str:
        lines: list[str] = []
        for title, rows in self._tables():
            lines += ["", f"{title}:"] if title else []
            lines += _table(rows)
            lines += [self._total] if not title and self._total else []
        for title, sentences in self._lists():
            lines += ["", f"{title}:", *(f"- {sentence}" for sentence in sentences)]
        return "\n".join(lines)

    def to_html(self) -> str:
        """Return the tables as HTML; notebooks show it automatically."""
        parts: list[str] = []
        for title, (head, *rows) in self._tables():
            parts += [f"<p><b>{escape(title)}</b></p>"] if title else []
            parts += ["<table><thead><tr>", *(f"<th>{escape(cell)}</th>" for cell in head), "</tr></thead><tbody>"]
            for row in rows:
                parts += ["<tr>", *(f'<td style="text-align: left">{escape(cell)}</td>' for cell in row), "</tr>"]
            parts += ["</tbody></table>"]
            parts += [f"<p>{escape(self._total)}</p>"] if not title and self._total else []
        for title, sentences in self._lists():
            parts += [f"<p><b>{title}</b></p><ul>", *(f"<li>{escape(each)}</li>" for each in sentences), "</ul>"]
        return "".join(parts)

    _repr_html_ = to_html

    @property
    def _total(self) -> str:
        if self.total_tokens is None:
            return ""
        budget = "" if self.budget_tokens is None else f" of {self.budget_tokens}"
        note = f" ({self.counting_note})" if self.counting_note else ""
        return f"{self.total_tokens} tokens{budget} in {len(self.blocks)} blocks{note}"

    def _tables(self) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
        """The tables with their titles; the table of blocks has no title."""
        yield (
            "",
            [
                ("#", "role", "tokens", "source", "why", "text"),
                *(
                    (str(row.position), row.role, _number(row.tokens), row.source, row.reason, row.preview)
                    for row in self.blocks
                ),
            ],
        )
        if self.left_out:
            yield (
                "Left out",
                [("what", "tokens", "why"), *((row.what, _number(row.tokens), row.reason) for row in self.left_out)],
            )
        if self.moved:
            yield (
                "Moved, for the prompt cache",
                [
                    ("what", "tokens", "where", "instead of", "why"),
                    *((row.name, _number(row.tokens), row.place, row.reference, row.reason) for row in self.moved),
                ],
            )

    def _lists(self) -> Iterator[tuple[str, Sequence[str]]]:
        for title, sentences in (("Warnings", self.warnings), ("Hints", self.hints)):
            if sentences:
                yield title, sentences


def explain_plan(plan: Plan) -> Explanation:
    """Make the explanation of a plan."""
    from tavernkit.cache._breaks import cache_hints

    shown = [
        ExplainedBlock(
            position=position,
            role=block.role,
            tokens=_tokens(plan, block),
            source=describe_source(block),
            reason=_source_field(block, "reason"),
            preview=preview(block.content),
            block_id=block.id,
        )
        for position, block in enumerate(plan.enabled_blocks, start=1)
    ]
    counts = [row.tokens for row in shown]
    total = sum(count for count in counts if count is not None) if None not in counts else None
    report = plan.trim_report
    return Explanation(
        blocks=tuple(shown),
        left_out=tuple(_left_out(plan)),
        total_tokens=report.final_tokens if report is not None else total,
        budget_tokens=report.budget_tokens if report is not None else None,
        warnings=plan.warnings,
        counting_note=plan.counting_note,
        moved=plan.moved,
        hints=tuple(cache_hints(plan)),
    )


def describe_source(block: Block) -> str:
    """Say in a few words where a block came from."""
    source = block.source
    if is_mapping(source):
        title = source.get("title")
        if title:
            return str(title)
        kind = str(source.get("kind") or source.get("stage") or "")
        label = source.get("name") or source.get("id")
        return f"{kind} {label}".strip() if label is not None else kind or "unknown"
    return str(source or block.slot or "unknown").replace("_", " ")


def preview(text: str) -> str:
    """The start of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= PREVIEW_CHARACTERS else line[: PREVIEW_CHARACTERS - 1] + "…"


def _left_out(plan: Plan) -> list[ExplainedOmission]:
    rows: list[ExplainedOmission] = []
    evicted: dict[str, tuple[str, int]] = {}
    if plan.trim_report is not None:
        evicted = {
            record.block_id: (_REASONS.get(record.reason, record.reason), record.token_count)
            for record in plan.trim_report.evictions
        }
    for block in plan.blocks:
        if block.disabled:
            reason, tokens = evicted.get(block.id, ("switched off", _tokens(plan, block)))
            rows.append(ExplainedOmission(f"{describe_source(block)}: {preview(block.content)}", reason, tokens))
    rows += [ExplainedOmission(_what(each), each.reason, each.tokens) for each in plan.omissions]
    return rows


def _what(omission: Omission) -> str:
    kind, name = omission.kind.replace("_", " "), omission.name or omission.id
    return name if name.startswith(kind) else f"{kind} {name}"


_REASONS: Mapping[str, str] = {
    "budget_exceeded": "over the token budget",
    "group_overflow": "over the token budget, dropped with its group",
    "priority_cutoff": "over the token budget, lowest priority first",
}


def _tokens(plan: Plan, block: Block) -> int | None:
    counted = block.metadata.get("tokens")
    if isinstance(counted, int):
        return counted
    return None if plan.count_tokens is None else plan.count_tokens(block.content)


def _source_field(block: Block, name: str) -> str:
    source = block.source
    value = (source if is_mapping(source) else block.metadata).get(name)
    return "" if value is None else str(value)


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    shown = [[" ".join(cell.split()) for cell in row] for row in rows]  # a title may have several lines
    widths = [max(len(row[column]) for row in shown) for column in range(len(shown[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return lines
