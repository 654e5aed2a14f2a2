"""Evaluates documents. Nested documents wait on a stack of their own, so that depth costs memory, not recursion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tavernkit.silly_tavern.macros.document import Document, Node
from tavernkit.silly_tavern.macros.limits import MAX_DEPTH
from tavernkit.silly_tavern.macros.nodes import StrayTag
from tavernkit.text.traced import join

if TYPE_CHECKING:
    from tavernkit.silly_tavern.macros.nodes import MacroNode, Steps
    from tavernkit.silly_tavern.macros.run import Run
    from tavernkit.silly_tavern.macros.shorthand import ShorthandNode


def evaluate(document: Document, run: Run) -> str:
    """Give the text of a document, with everything in it evaluated from left to right."""
    waiting: list[tuple[Steps, MacroNode | ShorthandNode, Iterator[str | Node], list[str], int]] = []
    parts, out = iter(document.parts(run)), list[str]()
    while True:
        for part in parts:
            if isinstance(part, str):
                out.append(part)
                continue
            if isinstance(part, StrayTag) or part.simple:
                out.append(part.value(run))
                continue
            steps, node = part.steps(run), part
            answer = _advance(steps, None)
            break
        else:
            text = join("", out)
            if not waiting:
                return text
            steps, node, parts, out, run.base = waiting.pop()
            answer = _advance(steps, text)
        if isinstance(answer, str):
            out.append(answer)
            continue
        if len(waiting) >= MAX_DEPTH:
            steps.close()
            out.append(node.source)
            _report_depth(run, node)
            continue
        inner, base = answer
        waiting.append((steps, node, parts, out, run.base))
        if base is not None:
            run.base = base
        parts, out = iter(inner.parts(run)), []


def _advance(steps: Steps, text: str | None) -> str | tuple[Document, int | None]:
    """Go on with an evaluation: its result, or the document it asks for next."""
    try:
        return next(steps) if text is None else steps.send(text)
    except StopIteration as end:
        return end.value


def _report_depth(run: Run, node: MacroNode | ShorthandNode) -> None:
    run.report_limit(
        "depth",
        f"macros are nested more than {MAX_DEPTH} levels deep; what is deeper stays as text",
        macro=node.name,
        position=node.position,
        count=MAX_DEPTH,
    )
