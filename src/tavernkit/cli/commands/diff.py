"""``tavernkit diff``."""

from __future__ import annotations

import difflib
import html
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tavernkit.cli.options import Platform, choice_option
from tavernkit.cli.process import ExitCode

if TYPE_CHECKING:
    from tavernkit.authoring import Change
    from tavernkit.prompt._plan import Plan

_SHOWN = 100
"""How many characters of a value are shown."""
_CONTEXT = 30
"""How many of them come before the first difference, if it is far from the start."""
_BOOKS = ("world book", "character book", "RisuAI lorebook")
_SIGNS = {"added": "+", "removed": "-", "changed": "~", "moved": ">"}
_STYLES = {"added": "green", "removed": "red", "changed": "yellow", "moved": "cyan"}


def diff(
    old: Annotated[Path, typer.Argument(help="A card, book, preset or template, or a folder.", show_default=False)],
    new: Annotated[
        Path | None, typer.Argument(help="The newer version. Not used with --text.", show_default=False)
    ] = None,
    message: Annotated[
        str | None,
        typer.Option("--message", "-m", help="Also compare the prompts for this message.", show_default=False),
    ] = None,
    chat: Annotated[
        Path | None, typer.Option("--chat", "-c", help="The chat for these prompts.", show_default=False)
    ] = None,
    card: Annotated[
        Path | None,
        typer.Option("--card", help="For books and presets: the card for these prompts.", show_default=False),
    ] = None,
    platform: Annotated[
        Platform,
        choice_option(
            tuple(Platform), "--platform", "-p", help="The program whose prompts to compare (default: silly_tavern)."
        ),
    ] = Platform.SILLY_TAVERN,
    text: Annotated[
        bool, typer.Option("--text", help="Print one file as lines of text, as a textconv for git.")
    ] = False,
    to_html: Annotated[
        Path | None, typer.Option("--html", help="Write a page to this file.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    r"""Show what changed between two versions: fields, entries (added, removed, changed, moved), and the prompts.

    Exits with 1 if there is a difference, as diff does.

    \b
    tavernkit diff old/aria.png aria.png
    tavernkit diff old/aria.png aria.png --message "Who lit the lamp?" --html changes.html
    tavernkit diff --text aria.png            # for git: see the documentation
    """
    from tavernkit.authoring import file_text
    from tavernkit.cli.files import refuse_input, write_text
    from tavernkit.cli.terminal import show_line, show_report

    if not old.exists():
        raise typer.BadParameter(f"there is no file or folder {str(old)!r}")
    if text:
        show_line(file_text(old))
        return
    if new is None:
        raise typer.BadParameter("name two files or folders")
    refuse_input(to_html, old, new, chat, card)
    changes = _changes(old, new)
    prompts = None
    if message is not None or chat is not None:
        prompts = _prompts(old, new, message or "", chat, card, platform)
    if to_html is not None:
        write_text(to_html, _page(old, new, changes, prompts))
    if as_json:
        show_report(_json(changes, prompts))
    else:
        _print(changes, prompts)
    if any(found for _, found in changes):
        raise typer.Exit(ExitCode.PROBLEMS)


def _changes(old: Path, new: Path) -> list[tuple[str, list[Change]]]:
    from tavernkit.authoring import Change
    from tavernkit.cli.commands.lint import SUFFIXES

    for path in (old, new):
        if not path.exists():
            raise typer.BadParameter(f"there is no file or folder {str(path)!r}")
    if old.is_dir() != new.is_dir():
        raise typer.BadParameter("compare two files, or two folders")
    if not old.is_dir():
        return [(str(new), _compared(old, new))]
    before, after = (
        {each.relative_to(folder): each for each in folder.rglob("*") if each.suffix.lower() in SUFFIXES}
        for folder in (old, new)
    )
    found: list[tuple[str, list[Change]]] = []
    for name in sorted({*before, *after}):
        if name not in after:
            found.append((str(name), [Change("removed", "/")]))
        elif name not in before:
            found.append((str(name), [Change("added", "/")]))
        elif before[name].read_bytes() != after[name].read_bytes():
            found.append((str(name), _compared(before[name], after[name])))
    return found


def _compared(old: Path, new: Path) -> list[Change]:
    from tavernkit.authoring import diff_values
    from tavernkit.authoring._differences import file_value
    from tavernkit.cli.files import naming

    with naming(old):
        before = file_value(old)
    with naming(new):
        after = file_value(new)
    return diff_values(before, after)


def _prompts(
    old: Path, new: Path, message: str, chat: Path | None, card: Path | None, platform: Platform
) -> tuple[Plan, Plan]:
    """Build a prompt with each file; a book or preset is used with the given card, or an empty one."""
    from tavernkit.cli.build_options import BuildOptions
    from tavernkit.cli.case_runner import stub_card
    from tavernkit.cli.inputs import build_plan
    from tavernkit.lint import FileKind
    from tavernkit.lint._files import recognise

    def build(path: Path, folder: Path) -> Plan:
        kind = recognise(path)[0]
        is_card, is_preset = kind is FileKind.CARD, kind in (FileKind.PRESET, FileKind.RISU_PRESET)
        if not is_card and not is_preset and kind not in _BOOKS:
            raise typer.BadParameter(f"there is no prompt to compare: {path} is a {kind}")
        options = BuildOptions(
            card=path if is_card else card or stub_card(folder),
            preset=str(path) if is_preset else None,
            book=None if is_card or is_preset else [path],
            message=message,
            chat=None if chat is None else str(chat),
            platform=platform,
            seed=0,
            on_overflow="return",
        )
        return build_plan(options)

    with tempfile.TemporaryDirectory() as folder:
        return build(old, Path(folder)), build(new, Path(folder))


def _lines(plan: Plan) -> list[str]:
    from tavernkit._values import is_mapping

    lines: list[str] = []
    for each in plan.to_messages():
        if is_mapping(each):
            lines += [f"[{each.get('role')}]", *str(each.get("content")).splitlines()]
    return lines


def _tokens(plan: Plan) -> int | None:
    return plan.explain().total_tokens


def _json(changes: list[tuple[str, list[Change]]], prompts: tuple[Plan, Plan] | None) -> dict[str, object]:
    value: dict[str, object] = {
        "files": [{"file": name, "changes": [each.to_dict() for each in found]} for name, found in changes],
    }
    if prompts is not None:
        value["prompts"] = {
            name: {"tokens": _tokens(plan), "messages": plan.to_messages()}
            for name, plan in zip(("old", "new"), prompts, strict=True)
        }
    return value


def _print(changes: list[tuple[str, list[Change]]], prompts: tuple[Plan, Plan] | None) -> None:
    from rich.text import Text

    from tavernkit._values import counted
    from tavernkit.cli.terminal import show, visible

    for name, found in changes:
        show(Text.assemble((visible(name), "bold"), (f"  {counted(len(found), 'change')}", "dim")))
        for change in found:
            line = Text.assemble((f"  {_SIGNS[change.kind]} ", _STYLES[change.kind]), visible(_sentence(change)))
            show(line)
    if prompts is not None:
        old, new = prompts
        show("", f"The prompts: {_tokens(old)} tokens before, {_tokens(new)} now")
        for line in difflib.unified_diff(_lines(old), _lines(new), "before", "now", lineterm="", n=2):
            style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
            show(Text(visible(f"  {line}"), style=style))
    if not any(found for _, found in changes):
        show("no difference")


def _sentence(change: Change) -> str:
    name = f" ({change.name})" if change.name else ""
    if change.kind == "moved":
        return f"{change.where}{name}: from place {change.old} to {change.new}"
    if change.kind == "changed":
        return f"{change.where}{name}: {' → '.join(_short_pair(change.old, change.new))}"
    value = change.new if change.kind == "added" else change.old
    return f"{change.where}{name}" + ("" if value is None else f": {_short(value)}")


def _short(value: object, start: int = 0) -> str:
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= _SHOWN:
        return text
    return f"{'…' if start else ''}{text[start : start + _SHOWN]}{'…' if start + _SHOWN < len(text) else ''}"


def _short_pair(old: object, new: object) -> tuple[str, str]:
    """Shorten long values so that both show their first difference."""
    pairs = zip(*(json.dumps(value, ensure_ascii=False) for value in (old, new)), strict=False)
    same = next((place for place, (one, other) in enumerate(pairs) if one != other), 0)
    start = max(0, same - _CONTEXT) if same > _SHOWN // 2 else 0
    return _short(old, start), _short(new, start)


def _page(old: Path, new: Path, changes: list[tuple[str, list[Change]]], prompts: tuple[Plan, Plan] | None) -> str:
    rows = "".join(
        f'<tr class="{change.kind}"><td>{change.kind}</td><td>{html.escape(name)}</td>'
        f"<td>{html.escape(change.where)}</td><td>{html.escape(change.name)}</td>"
        f"<td><pre>{html.escape(_whole(change.old))}</pre></td>"
        f"<td><pre>{html.escape(_whole(change.new))}</pre></td></tr>"
        for name, found in changes
        for change in found
    )
    both = ""
    if prompts is not None:
        before, after = prompts
        table = difflib.HtmlDiff(wrapcolumn=70).make_table(
            _lines(before), _lines(after), f"before: {_tokens(before)} tokens", f"now: {_tokens(after)} tokens"
        )
        both = f"<h2>Prompts</h2>{table}"
    return _PAGE.format(title=html.escape(f"{old} → {new}"), rows=rows, prompts=both)


def _whole(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem; }}
table {{ border-collapse: collapse; width: 100%; }}
td, th {{ border: 1px solid #ccc; padding: .3rem .5rem; vertical-align: top; }}
pre {{ white-space: pre-wrap; margin: 0; }}
.added td:first-child {{ background: #dfd; }} .removed td:first-child {{ background: #fdd; }}
.changed td:first-child {{ background: #ffd; }} .moved td:first-child {{ background: #def; }}
.diff_add {{ background: #dfd; }} .diff_sub {{ background: #fdd; }} .diff_chg {{ background: #ffd; }}
</style></head><body><h1>{title}</h1>
<table><tr><th>what</th><th>file</th><th>where</th><th>entry</th><th>before</th><th>now</th></tr>{rows}</table>
{prompts}</body></html>
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("diff")(diff)
