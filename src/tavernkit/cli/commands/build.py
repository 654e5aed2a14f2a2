"""``tavernkit build``."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from tavernkit.cli.build_options import TEXT, BuildOptions
from tavernkit.cli.options import Platform, takes

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tavernkit.models._request import WireRequest
    from tavernkit.prompt._plan import Plan

OUTPUT = "What comes out"
PAGE = "page"
"""The meaning of ``--request`` without a value: the body from the program's own page."""


@takes(BuildOptions)
def build(
    options: BuildOptions,
    request: Annotated[
        str | None,
        typer.Option(
            "--request",
            metavar="[SOURCE]",
            help="Show the whole request that the program would send. With a SOURCE (openrouter, koboldcpp, …), "
            "show the HTTP request to that provider, with keys masked.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    curl: Annotated[
        bool,
        typer.Option(
            "--curl",
            help="Print the HTTP request as a curl command, for the source of --request or of the preset.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    base_url: Annotated[
        str,
        typer.Option(
            "--base-url",
            metavar="URL",
            help="For --request SOURCE or --curl: the address of your server.",
            rich_help_panel=OUTPUT,
        ),
    ] = "",
    explain: Annotated[
        bool, typer.Option("--explain", "-e", help="Explain the prompt below it.", rich_help_panel=OUTPUT)
    ] = False,
    trace: Annotated[
        bool,
        typer.Option("--trace", help="Show the steps of the build and how long each took.", rich_help_panel=OUTPUT),
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
    tavernkit build aria.png --preset my.json --message Hi --request openrouter --curl
    tavernkit build --from-sillytavern data/default-user --character Aria --chat "Aria - 2026-1-5" --json
    """
    from tavernkit._values import is_mapping
    from tavernkit.cli import views
    from tavernkit.cli.files import json_text, refuse_input, write_text
    from tavernkit.cli.inputs import build_plan
    from tavernkit.cli.terminal import SCHEMA_VERSION, complain, show, show_json, show_text
    from tavernkit.prompt._trace import TraceCollector
    from tavernkit.report import overview

    source = None if request == PAGE else request
    _refuse_misplaced(source, options, base_url=base_url and not curl)
    refuse_input(save, *options.files)
    plan = build_plan(options, **({"instrumenter": TraceCollector()} if trace else {}))
    if save is not None:
        saved = {"schema_version": SCHEMA_VERSION, **plan.to_dict()}
        write_text(save, json_text(saved))
    if curl:
        wire = _wire(plan, source, options, base_url)
        show_text(curl_command(wire, _key_variable(source or _own_source(plan))))
        return
    if source is not None:
        payload = _printable(_wire(plan, source, options, base_url))
    else:
        payload = _payload(plan, options.dialect, request is not None)
    if as_json:
        for warning in plan.warnings:
            complain(warning)
        show_json(_answer(plan, payload, explain=explain, trace=trace))
        return
    view = overview(plan)
    if request is not None or options.dialect not in ("openai", TEXT):
        show_json(payload)
    elif options.dialect == TEXT and is_mapping(payload):
        show_text(str(payload["prompt"]))
    else:
        show(views.blocks_view(view, everything=True))
    parts: list[RenderableType | None] = [views.token_bar(view)]
    if explain:
        parts += [views.plan_table(view), views.left_out_table(view)]
        if view.lore:
            parts.append(views.lore_table(view.lore))
    if trace and plan.trace is not None:
        parts.append(views.trace_table(plan.trace))
    parts.append(views.warnings_view(view.warnings))
    for part in parts:
        if part is not None:
            show("", part)
    if save is not None:
        show(f"\nThe plan is in {save}")


def _refuse_misplaced(source: str | None, options: BuildOptions, *, base_url: object) -> None:
    """Raise if the request would not be what its options say."""
    if source is None:
        if base_url:
            raise typer.BadParameter("--base-url is for --request SOURCE or --curl")
        return
    if options.chosen_platform is Platform.RISU_AI:
        raise typer.BadParameter(
            f"in RisuAI the preset's model decides where a request goes: use --request or --curl without {source!r}"
        )
    from tavernkit.silly_tavern.providers import CHAT_SOURCES, TEXT_BACKENDS

    if source in TEXT_BACKENDS and source not in CHAT_SOURCES and options.dialect != TEXT:
        raise typer.BadParameter(f"--request {source} is for --dialect {TEXT}")


def _answer(plan: Plan, payload: object, *, explain: bool, trace: bool) -> object:
    if not explain and not trace:
        return payload
    answer = {"payload": payload}
    if explain:
        answer["explanation"] = plan.explain().to_dict()
    if trace:
        answer["trace"] = _trace(plan.trace)
    return answer


def _printable(wire: WireRequest) -> object:
    from tavernkit._values import thaw

    return {"method": wire.method, "url": wire.url, "headers": dict(wire.headers), "body": thaw(wire.body)}


def _wire(plan: Plan, source: str | None, options: BuildOptions, base_url: str) -> WireRequest:
    """Return the program's HTTP request; a user's own server gets no key if there is none."""
    from tavernkit.cli.terminal import complain
    from tavernkit.models._factory import PROVIDERS

    known = PROVIDERS.get(source or _own_source(plan))
    keyless = known is not None and known.local and not any(os.environ.get(name) for name in known.keys)
    request = plan.request(
        source,
        model=options.model or "" if source is not None else "",
        reference=True,
        api_key="" if keyless else None,
        base_url=base_url,
        warn=complain,
    )
    assert request.wire is not None
    return request.wire


def _own_source(plan: Plan) -> str:
    """Return the source that the preset or the settings choose."""
    found = getattr(plan, "backend", "") or plan.llm_options.get("chat_completion_source")
    return str(found or "")


def _key_variable(source: str) -> str:
    from tavernkit.models._factory import ALIASES, PROVIDERS

    known = PROVIDERS.get(ALIASES.get(source, source))
    return known.keys[0] if known is not None and known.keys else "API_KEY"


def curl_command(wire: WireRequest, variable: str) -> str:
    """Return a shell command that sends a request.

    Args:
        wire: The request, without a key in it.
        variable: The environment variable with the key, which the command reads.
    """
    from tavernkit._text import strict_json
    from tavernkit._values import thaw
    from tavernkit.cli.terminal import visible_json
    from tavernkit.models._request import KEY_MARK

    def quoted(text: str) -> str:
        # The shell inserts the key: the variable is between two quoted parts.
        return f'"${variable}"'.join(shlex.quote(part) if part else "" for part in text.split(KEY_MARK))

    lines = [f"curl -X {wire.method} {quoted(wire.url)}"]
    headers = {"content-type": "application/json", **{name.lower(): value for name, value in wire.headers.items()}}
    lines += [f"-H {quoted(f'{name}: {value}')}" for name, value in headers.items()]
    lines.append(f"--data-raw {shlex.quote(visible_json(strict_json.compact(thaw(wire.body))))}")
    return " \\\n  ".join(lines)


def _payload(plan: object, dialect: str, request: bool) -> object:
    from tavernkit.errors import ConfigError
    from tavernkit.prompt._plan import Plan

    assert isinstance(plan, Plan)
    if not request:
        to_text = getattr(plan, "to_text", None)
        return {"prompt": to_text()} if dialect == "text" and to_text is not None else plan.to_messages(dialect)
    to_request = getattr(plan, "to_request", None)
    if to_request is None:
        raise ConfigError("this plan has no request; leave out --request")
    return to_request()


def _trace(trace: object) -> object:
    from tavernkit._values import thaw_object
    from tavernkit.prompt._trace import Trace

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


class BuildCommand(typer.core.TyperCommand):
    """The command; its option ``--request`` may have no value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Add the default value of ``--request``."""
        for at, argument in reversed(list(enumerate(args))):
            following = args[at + 1] if at + 1 < len(args) else "-"
            if argument == "--request" and following.startswith("-"):
                args.insert(at + 1, PAGE)
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("build", cls=BuildCommand)(build)
