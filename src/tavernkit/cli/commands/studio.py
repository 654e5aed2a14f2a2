"""``tavernkit studio``."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from tavernkit.cli.options import Platform, choice_option
from tavernkit.errors import ConfigError

if TYPE_CHECKING:
    from tavernkit.conversation import ToolInput
    from tavernkit.studio import Studio
    from tavernkit.studio._app import Opened
    from tavernkit.studio._talk_models import ModelChoice

FILES = "What is opened"
FOLDER = "From an installation"
MODEL = "The model"
PAGE = "The page"


def _file(*names: str, help: str) -> typer.models.OptionInfo:  # noqa: A002  # typer's word
    option = typer.Option(*names, exists=True, dir_okay=False, help=help, rich_help_panel=FILES, show_default=False)
    return cast("typer.models.OptionInfo", option)


def studio(
    card: Annotated[
        Path | None,
        typer.Argument(
            exists=True, dir_okay=False, help="Character card; without one, the built-in example is opened."
        ),
    ] = None,
    book: Annotated[list[Path] | None, _file("--book", "-b", help="Lore book; may be repeated.")] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset",
            metavar="FILE",
            help="Preset of SillyTavern or RisuAI (a name, with --from-sillytavern).",
            rich_help_panel=FILES,
        ),
    ] = None,
    chat: Annotated[
        str | None,
        typer.Option(
            "--chat", "-c", metavar="FILE", help="Chat file (a name, with --from-sillytavern).", rich_help_panel=FILES
        ),
    ] = None,
    context_template: Annotated[Path | None, _file("--context-template", help="Context template.")] = None,
    instruct: Annotated[Path | None, _file("--instruct", help="Instruct template.")] = None,
    system_prompt: Annotated[Path | None, _file("--system-prompt", help="System prompt of text completion.")] = None,
    regex_script: Annotated[
        list[Path] | None, _file("--regex-script", help="Regex scripts of SillyTavern; may be repeated.")
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", "-u", metavar="NAME", help="The user's name.", rich_help_panel=FILES)
    ] = None,
    persona: Annotated[
        str, typer.Option("--persona", help="The user's description.", show_default=False, rich_help_panel=FILES)
    ] = "",
    message: Annotated[
        str, typer.Option("--message", "-m", help="What the user says next.", show_default=False, rich_help_panel=FILES)
    ] = "",
    platform: Annotated[
        str,
        choice_option(
            tuple(Platform), "--platform", "-p", help="The program whose rules to follow (default: silly_tavern)."
        ),
    ] = Platform.SILLY_TAVERN,
    dialect: Annotated[
        str,
        typer.Option(
            "--dialect", "-d", metavar="NAME", help="openai, or text for models without chat.", rich_help_panel=FILES
        ),
    ] = "openai",
    from_sillytavern: Annotated[
        Path | None,
        typer.Option(
            "--from-sillytavern",
            metavar="DIR",
            exists=True,
            file_okay=False,
            help="SillyTavern data folder, such as data/default-user.",
            rich_help_panel=FOLDER,
        ),
    ] = None,
    character: Annotated[
        str | None,
        typer.Option("--character", metavar="NAME", help="Which character to use from there.", rich_help_panel=FOLDER),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option("--group", metavar="NAME", help="Which group to use from there.", rich_help_panel=FOLDER),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="NAME",
            help="Model to talk to, such as openai:gpt-4o; its key is read from the environment; may be repeated. "
            "Without one, a scripted model answers.",
            envvar="TAVERNKIT_STUDIO_MODEL",
            rich_help_panel=MODEL,
        ),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(
            "--base-url", metavar="URL", help="Another server for --model.", rich_help_panel=MODEL, show_default=False
        ),
    ] = None,
    tool: Annotated[
        list[str] | None,
        typer.Option(
            "--tool",
            metavar="MODULE:FUNCTION",
            help="Python function that models may call; may be repeated.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port; 0 picks a free one.", rich_help_panel=PAGE)
    ] = 0,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Print the address without opening a browser.", rich_help_panel=PAGE)
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the address as one line of JSON.", rich_help_panel=PAGE)
    ] = False,
) -> None:
    r"""Open a page that shows the prompt while you edit a card, book or preset.

    Only this machine can open the page, with the token in its address. No file changes until you save.

    \b
    tavernkit studio
    tavernkit studio aria.png --book world.json --preset preset.json --chat chat.jsonl
    tavernkit studio aria.png --platform risu_ai --model openai:gpt-4o
    tavernkit studio --from-sillytavern data/default-user --character Aria
    """
    from tavernkit.cli.terminal import show_piece

    try:
        from tavernkit.studio._app import Opened, model_choice, run_studio
    except ModuleNotFoundError as error:
        raise ConfigError("Studio needs its extra: pip install 'tavernkit[server]'", code="EXTRA_MISSING") from error

    models = [model_choice(name, base_url) for name in model or ()]
    tools = [_function(name) for name in tool or ()]
    if from_sillytavern is not None:
        if card is not None:
            raise typer.BadParameter("name the character with --character, not as a file")
        of_files = {
            "book": book,
            "context-template": context_template,
            "instruct": instruct,
            "system-prompt": system_prompt,
            "regex-script": regex_script,
            "user": user,
            "persona": persona,
            "message": message,
            "platform": platform != Platform.SILLY_TAVERN,
            "dialect": dialect != "openai",
        }
        if ignored := [name for name, value in of_files.items() if value]:
            raise typer.BadParameter(f"with --from-sillytavern, set --{ignored[0]} on the page")
        made = _from_folder(from_sillytavern, character, group, chat, preset, models, tools)
    else:
        if character or group:
            raise typer.BadParameter(f"--{'character' if character else 'group'} is for --from-sillytavern")
        given = Opened(
            card=card,
            books=book or (),
            preset=_existing(preset, "--preset"),
            chat=_existing(chat, "--chat"),
            context_template=context_template,
            instruct=instruct,
            system_prompt=system_prompt,
            regex_scripts=regex_script or (),
            user=user,
            persona=persona,
            message=message,
            platform=platform,
            dialect=dialect,
        )
        made = _from_files(given, models, tools)

    def opened(address: str) -> None:
        show_piece((json.dumps({"url": address}) if as_json else f"TavernKit Studio: {address}") + "\n")
        if not no_open:
            import webbrowser

            webbrowser.open(address)

    run_studio(made, port=port, opened=opened)


def _from_files(given: Opened, models: list[ModelChoice], tools: list[ToolInput]) -> Studio:
    from tavernkit.studio._app import open_studio

    return open_studio(given, models=models, tools=tools)


def _from_folder(
    folder: Path,
    character: str | None,
    group: str | None,
    chat: str | None,
    preset: str | None,
    models: list[ModelChoice],
    tools: list[ToolInput],
) -> Studio:
    from tavernkit.studio._app import open_folder
    from tavernkit.studio._shelf import OpenRequest

    wanted = OpenRequest(character=character, group=group, chat=chat, preset=preset)
    return open_folder(folder, wanted, models=models, tools=tools)


def _existing(name: str | None, option: str) -> Path | None:
    if name is None:
        return None
    path = Path(name)
    if not path.is_file():
        raise typer.BadParameter(f"{option}: there is no file {name!r}")
    return path


def _function(name: str) -> ToolInput:
    """Import a tool from the module given on the command line, as with ``python -m``."""
    module, colon, function = name.partition(":")
    if not colon:
        raise typer.BadParameter(f"--tool {name}: write MODULE:FUNCTION")
    try:
        found: object = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise typer.BadParameter(f"--tool {name}: {error}") from error
    if not callable(found):
        raise typer.BadParameter(f"--tool {name}: it is not a function")
    return found


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("studio")(studio)
