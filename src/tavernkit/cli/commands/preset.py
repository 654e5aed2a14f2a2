"""``tavernkit preset``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from tavernkit.cli.options import Platform, choice_option
from tavernkit.cli.process import ExitCode
from tavernkit.errors import Warn

_LOST_BY_RISU_AI = (
    "impersonation_prompt",
    "new_chat_prompt",
    "new_group_chat_prompt",
    "new_example_chat_prompt",
    "continue_nudge_prompt",
    "group_nudge_prompt",
    "wi_format",
    "scenario_format",
    "personality_format",
    "assistant_prefill",
    "names_behavior",
    "squash_system_messages",
)
"""SillyTavern's settings that affect prompts but that RisuAI's import of a preset ignores."""

app = typer.Typer(no_args_is_help=True, help="Convert presets between SillyTavern and RisuAI.")


@app.callback()
def group() -> None:
    """Convert presets between SillyTavern and RisuAI."""


@app.command("convert")
def convert(
    preset: Annotated[Path, typer.Argument(help="A preset of either program; - is stdin.", show_default=False)],
    target: Annotated[Path, typer.Argument(help="The new file: .json, .risup or .risupreset.", show_default=False)],
    to: Annotated[
        Platform | None,
        choice_option(tuple(Platform), "--to", help="The program whose format to write (default: the other one)."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Overwrite an existing file.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    r"""Write a preset for the other program, and report what gets lost. Keys and addresses are left out.

    \b
    tavernkit preset convert mine.json mine.risup
    tavernkit preset convert theirs.risup theirs.json --to silly_tavern
    """
    from tavernkit.cards import FileKind, kind_of
    from tavernkit.cli.files import STDIN, check_free, naming, read_bytes, shown
    from tavernkit.cli.terminal import complain, show, show_report
    from tavernkit.errors import FileFormatError, WarningLog
    from tavernkit.lint._files import parse_json

    if target.suffix.lower() not in (".json", ".risup", ".risupreset"):
        raise typer.BadParameter(f"{target}: its ending must be .json, .risup or .risupreset")
    data = read_bytes(preset)
    kind = kind_of(parse_json(data))
    if kind not in (None, FileKind.PRESET, FileKind.RISU_PRESET):
        raise FileFormatError(f"{shown(preset)} is a {kind}, not a preset")
    check_free(target, force=force)
    from_silly_tavern = kind is FileKind.PRESET
    chosen = to or (Platform.RISU_AI if from_silly_tavern else Platform.SILLY_TAVERN)
    warnings = WarningLog()
    with naming(preset):
        _write(Given(data, "" if str(preset) == STDIN else preset.name), target, chosen, from_silly_tavern, warnings)
    if as_json:
        show_report({"file": str(target), "format": chosen.value, "warnings": list(warnings.messages)})
    else:
        show(f"{target}: a preset for {chosen.value}")
        for message in warnings.messages:
            complain(message)
    if warnings.messages:
        raise typer.Exit(ExitCode.PROBLEMS)


class Given(NamedTuple):
    """The file to convert: its content and its name."""

    data: bytes
    name: str


def _write(preset: Given, target: Path, chosen: Platform, from_silly_tavern: bool, warnings: Warn) -> None:
    from tavernkit.cli.files import json_text, write_text
    from tavernkit.risu_ai._files.preset import Preset

    if chosen is Platform.RISU_AI:
        for name in _ignored_settings(preset.data) if from_silly_tavern else ():
            warnings(f"{name} is lost: RisuAI's import of a preset does not take it")
        Preset.load(preset.data, name=preset.name, warn=warnings).save(target)
    elif from_silly_tavern:
        from tavernkit.silly_tavern import Preset as SillyTavernPreset

        SillyTavernPreset.load(preset.data).without_secrets().save(target)
    else:
        from tavernkit.risu_ai._files.silly_tavern_preset import to_chat_preset

        read = Preset.load(preset.data, name=preset.name, warn=warnings)
        write_text(target, json_text(to_chat_preset(read, warn=warnings), indent=4))


def _ignored_settings(preset: bytes) -> list[str]:
    """Return the settings that RisuAI ignores and that differ from SillyTavern's defaults."""
    from tavernkit.silly_tavern import Preset

    stated, usual = Preset.load(preset).to_json(), Preset.default().to_json()
    return [name for name in _LOST_BY_RISU_AI if name in stated and stated[name] != usual.get(name)]


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(app, name="preset")
