"""Source maps of recorded builds: checked character by character, and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from tavernkit import risu_ai
from tavernkit import silly_tavern as st
from tavernkit.errors import TavernKitError
from tavernkit.prompt.plan import Plan
from tavernkit.prompt.source_map import MappedText, SourceMap, Span
from tests.conformance.runner import UnavailableError, adapter, cases

CHAT = (
    "silly_tavern/build_chat",
    "silly_tavern/build_chat_models",
    "silly_tavern/build_chat_squash",
    "silly_tavern/build_group_folder",
    "silly_tavern/chat_extras",
)
TEXT = ("silly_tavern/build_text",)
RISU_AI = ("risu_ai/build",)


def plans(surface: str, every: int = 1) -> Iterator[tuple[str, Plan]]:
    """The plans that the recorded builds of a surface make, or those of one case in so many."""
    builder: Any = risu_ai.Builder if surface.startswith("risu_ai") else st.Builder
    run = builder.run
    made: list[Plan] = []

    def noting(self: Any, context: Any) -> Plan:
        plan: Plan = run(self, context)
        plan.source_map()  # here, as folders of files may be gone afterwards
        made.append(plan)
        return plan

    act = adapter(surface)
    assert act is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builder, "run", noting)
        for case in list(cases(surface))[::every]:
            made.clear()
            with suppress(TavernKitError, UnavailableError):
                act(case)
            for plan in made:
                yield case.id, plan


def problems(source_map: SourceMap) -> Iterator[str]:
    """Whatever is wrong with a map."""
    for text in (*source_map.messages, *source_map.blocks):
        yield from _problems(text.text, text.spans, 0, len(text.text))
    for block in source_map.blocks:
        costs = [cost.tokens for cost in source_map.costs if cost.block == block.id]
        if costs and sum(costs) != block.tokens:
            yield f"{block.id}: {costs} are not {block.tokens} tokens"


def _problems(text: str, spans: tuple[Span, ...], start: int, end: int) -> Iterator[str]:
    at = start
    for span in spans:
        if span.start != at or span.end <= span.start:
            yield f"{span!r:.200} does not begin at {at}"
        at = span.end
        if span.kind == "verbatim":
            source = span.source
            words = text[span.start : span.end]
            if source is None or source.text[span.offset : span.offset + len(span)] != words:
                yield f"{words!r:.80} does not stand in {source!r:.120} at {span.offset}"
        if span.inner:
            yield from _problems(text, span.inner, span.start, span.end)
    if at != end:
        yield f"the spans end at {at}, not {end}"


def known(span: Span) -> bool:
    """Whether it is known where a span's characters stand, or where the macro does that made them."""
    return span.kind == "verbatim" or (span.kind == "expanded" and bool(span.sources))


def count(source_map: SourceMap) -> Counter[str]:
    """Count characters by kind; ``known`` of all that is not added counts what the issue asks for."""
    counts: Counter[str] = Counter(source_map.shares())
    counts["known"] = sum(len(span) for text in source_map.messages for span in text.spans if known(span))
    return counts


def unknown_texts(source_map: SourceMap) -> Iterator[str]:
    """The texts of spans that say least, for whoever looks for what was lost."""
    for text in source_map.messages:
        yield from (text.text[span.start : span.end] for span in text.spans if span.kind == "added")


def shown(text: MappedText) -> str:
    """A text with its spans marked."""
    return "".join(f"[{span.kind[0]}:{text.text[span.start : span.end]}]" for span in text.spans)
