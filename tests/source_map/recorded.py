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
from tavernkit.prompt._plan import Plan
from tavernkit.prompt._source_map import SourceMap
from tavernkit.prompt._source_spans import MappedText, Span
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
    # RisuAI's sends have prompts of their own, which are built beside ``run``.
    builder, method = (risu_ai.Builder, "run_state") if surface.startswith("risu_ai") else (st.Builder, "run")
    run: Any = getattr(builder, method)
    made: list[Plan] = []
    mapping = False

    def noting(self: Any, given: Any) -> Plan:
        nonlocal mapping
        plan: Plan = run(self, given)
        if mapping or plan.again is None:
            return plan
        mapping = True
        plan.source_map()  # here, as folders of files may be gone afterwards
        mapping = False
        made.append(plan)
        return plan

    act = adapter(surface)
    assert act is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builder, method, noting)
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
    if span.kind == "expanded":  # a macro may stand in a text of the builder's own, which has a name
        return bool(span.sources) or any(each.name for each in span.written)
    return span.kind == "verbatim"


def count(source_map: SourceMap) -> Counter[str]:
    """Count characters by kind, those whose place is known, and those that were added for no reason that is named."""
    counts: Counter[str] = Counter(source_map.shares())
    spans = [span for text in source_map.messages for span in text.spans]
    counts["known"] = sum(len(span) for span in spans if known(span))
    counts["unnamed"] = sum(len(span) for span in spans if span.kind == "added" and not span.name)
    return counts


def unknown_texts(source_map: SourceMap) -> Iterator[str]:
    """The texts of spans that say least, for whoever looks for what was lost."""
    for text in source_map.messages:
        spans = (span for span in text.spans if span.kind == "added" and not span.name)
        yield from (text.text[span.start : span.end] for span in spans)


def shown(text: MappedText) -> str:
    """A text with its spans marked."""
    return "".join(f"[{span.kind[0]}:{text.text[span.start : span.end]}]" for span in text.spans)
