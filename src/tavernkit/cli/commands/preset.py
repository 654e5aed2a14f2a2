"""``tavernkit preset``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tavernkit.cli.platforms import Platform, choice_option

app = typer.Typer(no_args_is_help=True, help="Presets: from SillyTavern to RisuAI and back.")


@app.callback()
def group() -> None:
    """Presets: from SillyTavern to RisuAI and back."""


@app.command("convert")
def convert(
    preset: Annotated[Path, typer.Argument(help="A preset of either program.", show_default=False)],
    target: Annotated[Path, typer.Argument(help="The new file: .json, .risup or .risupreset.", show_default=False)],
    to: Annotated[
        Platform | None,
        choice_option(tuple(Platform), "--to", help="Whose format to write (default: the other one's)."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace the file if it is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    r"""Write a preset for the other program, and say what it cannot hold. Keys and addresses are left out.

    \b
    tavernkit preset convert mine.json mine.risup
    tavernkit preset convert theirs.risup theirs.json --to silly_tavern
    """
    from tavernkit.cli.terminal import complain, show, show_json
    from tavernkit.errors import WarningLog
    from tavernkit.lint.files import FileKind, recognise
    from tavernkit.risu_ai.preset import Preset

    if target.exists() and not force:
        raise typer.BadParameter(f"{target} is there already; --force replaces it")
    kind, _ = recognise(preset)
    from_silly_tavern = kind is FileKind.PRESET
    chosen = to or (Platform.RISU_AI if from_silly_tavern else Platform.SILLY_TAVERN)
    warnings = WarningLog()
    if chosen is Platform.RISU_AI:
        Preset.load(preset.read_bytes(), name=preset.name, warn=warnings).save(target)
    elif from_silly_tavern:
        from tavernkit.silly_tavern import Preset as SillyTavernPreset

        SillyTavernPreset.load(preset).without_secrets().save(target)
    else:
        from tavernkit.risu_ai.files.silly_tavern_preset import to_chat_preset

        read = Preset.load(preset.read_bytes(), name=preset.name, warn=warnings)
        written = json.dumps(to_chat_preset(read, warn=warnings), ensure_ascii=False, indent=4)
        target.write_text(written + "\n", encoding="utf-8")
    if as_json:
        show_json({"file": str(target), "format": chosen.value, "warnings": list(warnings.messages)})
        return
    show(f"{target}: a preset for {chosen.value}")
    for message in warnings.messages:
        complain(message)


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(app, name="preset")
