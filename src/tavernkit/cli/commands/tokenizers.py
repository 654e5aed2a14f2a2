"""``tavernkit tokenizers``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tavernkit.cli.process import ExitCode

if TYPE_CHECKING:
    from tavernkit.vibe_tavern import AuditedModel, TokenizerFile

Names = Annotated[list[str] | None, typer.Argument(help="Which tokenizers (qwen3, …); all by default.")]
Root = Annotated[
    Path | None,
    typer.Option("--root", metavar="DIR", help="Folder of the files (default: the folder that token estimation uses)."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def check(names: Names = None, root: Root = None, as_json: AsJson = False) -> None:
    r"""Show which tokenizer files exist and can be loaded.

    Exits with 1 if a file is damaged. If a file is missing, tokens are counted with another tokenizer.

    \b
    tavernkit tokenizers check
    tavernkit tokenizers check qwen3 --json
    """
    from tavernkit.vibe_tavern import check_tokenizers

    _show(check_tokenizers(root=root, only=names or ()), as_json=as_json, bad={"invalid"})


def fetch(
    names: Names = None,
    root: Root = None,
    force: Annotated[bool, typer.Option("--force", help="Fetch existing files again.")] = False,
    as_json: AsJson = False,
) -> None:
    r"""Download tokenizer files from Hugging Face (set HF_TOKEN for gated models). No other command downloads anything.

    \b
    tavernkit tokenizers fetch deepseek-v3 qwen3
    """
    from tavernkit.vibe_tavern import fetch_tokenizers

    _show(fetch_tokenizers(root=root, only=names or (), force=force), as_json=as_json, bad={"invalid", "failed"})


def audit(
    models: Annotated[list[str], typer.Argument(help="Model ids, as a provider names them.")],
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    r"""Show how the tokens of models are counted: with their own tokenizer or with another one.

    \b
    tavernkit tokenizers audit deepseek/deepseek-chat-v3 qwen/qwen3-32b
    """
    from tavernkit.cli import terminal
    from tavernkit.vibe_tavern import audit_models

    audited = audit_models(models, tokenizer_root=root)
    if as_json:
        terminal.show_report(
            {
                "models": [
                    {"model": one.model, "hint": one.hint, "status": one.status, "estimator": dict(one.description)}
                    for one in audited
                ]
            }
        )
        return
    rows = [(one.model, str(one.description.get("encoding") or one.hint), _owner(one)) for one in audited]
    terminal.show(terminal.table("model", "counted with", "which is", rows=rows))


def _owner(one: AuditedModel) -> str:
    """Say whose tokenizer counts the tokens of a model."""
    exact = one.description.get("exact")
    if one.status == "missing_file":
        owner = "its family's" if exact else "the default"
        return f"{owner}; for its own: tavernkit tokenizers fetch {one.hint}"
    return "its own" if exact else "the default"


def compare(
    models: Annotated[list[str], typer.Argument(help="Models, such as openai:gpt-4o.")],
    base_url: Annotated[
        str | None, typer.Option("--base-url", metavar="URL", help="The models' address, if it is not the usual one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    r"""Send one small request to each model, and compare the tokens that its provider counts with ours.

    \b
    tavernkit tokenizers compare openai:gpt-4o anthropic:claude-haiku-4-5
    """
    import asyncio
    from dataclasses import asdict

    from tavernkit.cli import terminal
    from tavernkit.cli.options import require_models
    from tavernkit.models import model
    from tavernkit.models._factory import SCRIPTED
    from tavernkit.vibe_tavern import Calibration, calibrate

    require_models()

    async def compared() -> list[Calibration]:
        found: list[Calibration] = []
        for name in models:
            replies = ["Yes."] if name.partition(":")[0] == SCRIPTED else None
            async with model(name, base_url=base_url, replies=replies) as connected:
                found += await calibrate([connected])
        return found

    counts = asyncio.run(compared())
    if as_json:
        terminal.show_report({"models": [asdict(one) for one in counts]})
    else:
        rows = [(one.model, one.hint, str(one.estimated), str(one.counted or ""), one.problem or "") for one in counts]
        terminal.show(terminal.table("model", "tokenizer", "estimated", "counted", "problem", rows=rows))
    if any(one.problem for one in counts):
        raise typer.Exit(ExitCode.PROBLEMS)


_STATUS = {"no_file": "needs no file"}


def _show(files: list[TokenizerFile], *, as_json: bool, bad: set[str]) -> None:
    from tavernkit.cli import terminal

    if as_json:
        terminal.show_report(
            {
                "tokenizers": [
                    {
                        "name": one.hint,
                        "status": one.status,
                        "path": None if one.path is None else str(one.path),
                        "problem": one.problem,
                    }
                    for one in files
                ]
            }
        )
    else:
        rows = [
            (one.hint, _STATUS.get(one.status, one.status), one.problem or ("" if one.path is None else str(one.path)))
            for one in files
        ]
        terminal.show(terminal.table("tokenizer", "status", "file", rows=rows))
    if any(one.status in bad for one in files):
        raise typer.Exit(ExitCode.PROBLEMS)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Check how tokens are counted, and download tokenizer files.", no_args_is_help=True)
    group.command("check")(check)
    group.command("fetch")(fetch)
    group.command("audit")(audit)
    group.command("compare")(compare)
    app.add_typer(group, name="tokenizers")
