"""Conditions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tavernkit._text.js_values import trim_start
from tavernkit.silly_tavern._macros import variables
from tavernkit.silly_tavern._macros.arguments import dedent, is_falsy, to_text
from tavernkit.silly_tavern._macros.call import MacroCall
from tavernkit.silly_tavern._macros.nodes import MacroNode, Part, Steps
from tavernkit.silly_tavern._macros.registry import MacroArgument, MacroRegistry
from tavernkit.silly_tavern._macros.source import ELSE_MARKER

if TYPE_CHECKING:
    from tavernkit.silly_tavern._macros.document import Document
    from tavernkit.silly_tavern._macros.run import Run

macros = MacroRegistry()

_VARIABLE = re.compile(r"([.$])([A-Za-z](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?)\Z")


@macros.macro("else", category="utility")
def else_marker(_call: MacroCall) -> str:
    """Separates the two branches of an if."""
    return ELSE_MARKER


def choose(node: MacroNode, run: Run) -> Steps:
    """Evaluate the condition, then only the branch it chooses."""
    condition, content = node.args[0], node.content or node.args[1]
    negated = condition.text.startswith("!")
    if negated:
        condition = _without_bang(condition)
    text = yield from _resolve(condition, node, run)
    found = _VARIABLE.match(text)
    if found is not None:
        scope = "local" if found[1] == "." else "global"
        text = to_text(variables.read(run.variables, found[2], scope))
    else:
        target = run.engine.registry.lookup(text.lower())
        if target is not None and not target[1].required:
            text = yield from _resolve_text("{{" + text + "}}", node, run)
    chosen = _branch(content, run, wanted=is_falsy(text) == negated)
    if chosen is None:
        return ""
    text = yield from _resolve(chosen, node, run)
    return text if "#" in node.flags or run.budget.spent else dedent(text)


def _resolve(part: Part, node: MacroNode, run: Run) -> Steps:
    """Expand a part as a separate text, with offsets relative to the ``if``."""
    document = part.document
    if document is None or run.engine.prepares_parts:
        return (yield from _resolve_text(part.text, node, run))
    if not document.may_parse(run):
        return part.text
    document.report_syntax(run)
    text = yield document, run.base + node.offset - document.offset
    return run.engine.complete(text, run.environment)


def _resolve_text(text: str, node: MacroNode, run: Run) -> Steps:
    """Expand a text that is not part of the current one."""
    engine = run.engine
    if "{{" not in text and not engine.prepares_parts:
        return engine.complete(text, run.environment)
    document = engine.compile(text, run.environment)
    document.report_syntax(run)
    return engine.complete((yield document, run.base + node.offset), run.environment)


def _without_bang(part: Part) -> Part:
    rest = trim_start(part.text[1:])
    document = part.document
    return Part(rest) if document is None else Part(None, document.without_start(len(part.text) - len(rest)))


def _branch(content: Part, run: Run, *, wanted: bool) -> Part | None:
    """Return the first branch, or the second one, or an empty text if there is none."""
    document = content.document
    if document is None:
        return content if wanted else None
    branches: tuple[Document, Document | None] = document.branches(run)
    chosen = branches[0] if wanted else branches[1]
    return None if chosen is None else Part(None, chosen)


macros.register(
    "if",
    control=choose,
    args=(MacroArgument("condition"), MacroArgument("content")),
    delayed=True,
    category="utility",
    description="Returns its content only if the condition is true; {{else}} starts the other branch.",
    example="{{if {{getvar::met}}}}Hello again{{else}}Hello{{/if}}",
)
