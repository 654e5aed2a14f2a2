"""``tavernkit build``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tavernkit.cli.build_options import TEXT, BuildOptions
from tavernkit.cli.option_groups import takes

if TYPE_CHECKING:
    from rich.console import RenderableType

OUTPUT = "What comes out"
SCHEMA_VERSION = 1
"""Grows when the file of ``--save`` changes in a way that programs notice."""


@takes(BuildOptions)
def build(
    options: BuildOptions,
    request: Annotated[
        bool, typer.Option("--request", help="The whole request the program would post.", rich_help_panel=OUTPUT)
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", "-e", help="Explain the prompt after it.", rich_help_panel=OUTPUT)
    ] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Show the steps of the build and their times.", rich_help_panel=OUTPUT)
    ] = False,
    save: Annotated[
        Path | None, typer.Option("--save", help="Write the whole plan to a JSON file.", rich_help_panel=OUTPUT)
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: the payload of the dialect.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    r"""Build the prompt for a character card and print it.

    \b
    tavernkit build aria.png --message "Who are you?"
    tavernkit build aria.png --preset my.json --book world.json --chat chat.jsonl --explain
    tavernkit build aria.png --dialect text --instruct chatml.json --message "Who are you?"
    tavernkit build aria.png --platform risu_ai --preset my.risup --dialect anthropic --json
    tavernkit build --from-sillytavern data/default-user --character Aria --chat "Aria - 2026-1-5" --json
    """
    from tavernkit.cli.inputs import build_plan
    from tavernkit.cli.terminal import complain, show, show_json, show_text
    from tavernkit.cli.views import plan_view
    from tavernkit.prompt.trace import TraceCollector
    from tavernkit.report import overview
    from tavernkit.values import is_mapping

    plan = build_plan(options, **({"instrumenter": TraceCollector()} if trace else {}))
    if save is not None:
        saved = {"schema_version": SCHEMA_VERSION, **plan.to_dict()}
        save.write_text(json.dumps(saved, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    payload = _payload(plan, options.dialect, request)
    if as_json:
        for warning in plan.warnings:
            complain(warning)
        answer: object = payload
        if explain or trace:
            answer = {"payload": payload}
            if explain:
                answer["explanation"] = plan.explain().to_dict()
            if trace:
                answer["trace"] = _trace(plan.trace)
        show_json(answer)
        return
    view = overview(plan)
    if request or options.dialect not in ("openai", TEXT):
        show_json(payload)
    elif options.dialect == TEXT and is_mapping(payload):
        show_text(str(payload["prompt"]))
    else:
        show(plan_view.blocks_view(view, everything=True))
    parts: list[RenderableType | None] = [plan_view.token_bar(view)]
    if explain:
        parts += [plan_view.plan_table(view), plan_view.left_out_table(view)]
        if view.lore:
            parts.append(plan_view.lore_table(view.lore))
    if trace and plan.trace is not None:
        parts.append(plan_view.trace_table(plan.trace))
    parts.append(plan_view.warnings_view(view.warnings))
    for part in parts:
        if part is not None:
            show("", part)
    if save is not None:
        show(f"\nThe plan is in {save}")


def _payload(plan: object, dialect: str, request: bool) -> object:
    from tavernkit.errors import ConfigError
    from tavernkit.prompt.plan import Plan

    assert isinstance(plan, Plan)
    if not request:
        to_text = getattr(plan, "to_text", None)
        return {"prompt": to_text()} if dialect == "text" and to_text is not None else plan.to_messages(dialect)
    to_request = getattr(plan, "to_request", None)
    if to_request is None:
        raise ConfigError("this plan has no request of its own; leave out --request")
    return to_request()


def _trace(trace: object) -> object:
    from tavernkit.prompt.trace import Trace
    from tavernkit.values import thaw_object

    if not isinstance(trace, Trace):
        return None
    return {
        "duration_ms": trace.duration_ms,
        "fingerprint": trace.fingerprint,
        "steps": [
            {"name": step.name, "duration_ms": step.duration_ms, "stats": thaw_object(step.stats)}
            for step in trace.steps
        ],
    }


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("build")(build)
