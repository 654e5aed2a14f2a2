"""``tavernkit studio``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tavernkit.cli.platforms import Platform, choice_option
from tavernkit.errors import ConfigError

FILES = "What is opened"
MODEL = "The model"
PAGE = "The page"


def studio(
    card: Annotated[
        Path | None,
        typer.Argument(exists=True, dir_okay=False, help="Character card; the shipped example without one."),
    ] = None,
    book: Annotated[
        list[Path] | None,
        typer.Option("--book", "-b", exists=True, dir_okay=False, help="Lore book; may be repeated."),
    ] = None,
    preset: Annotated[Path | None, typer.Option("--preset", exists=True, dir_okay=False, help="Preset.")] = None,
    chat: Annotated[Path | None, typer.Option("--chat", "-c", exists=True, dir_okay=False, help="Chat file.")] = None,
    context_template: Annotated[
        Path | None, typer.Option("--context-template", exists=True, dir_okay=False, help="Context template.")
    ] = None,
    instruct: Annotated[
        Path | None, typer.Option("--instruct", exists=True, dir_okay=False, help="Instruct template.")
    ] = None,
    system_prompt: Annotated[
        Path | None, typer.Option("--system-prompt", exists=True, dir_okay=False, help="System prompt.")
    ] = None,
    regex_script: Annotated[
        list[Path] | None,
        typer.Option("--regex-script", exists=True, dir_okay=False, help="Regex scripts; may be repeated."),
    ] = None,
    user: Annotated[str | None, typer.Option("--user", "-u", metavar="NAME", help="The user's name.")] = None,
    persona: Annotated[str, typer.Option("--persona", help="The user's description.", show_default=False)] = "",
    platform: Annotated[
        str, choice_option(tuple(Platform), "--platform", "-p", help="Whose rules (default: silly_tavern).")
    ] = Platform.SILLY_TAVERN,
    dialect: Annotated[
        str, typer.Option("--dialect", "-d", metavar="NAME", help="openai, or text for models without chat.")
    ] = "openai",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 is any free one.")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Print the address, open no browser.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as one line of JSON.")] = False,
) -> None:
    r"""Open a page that shows the prompt live: change a card, book or preset and see what the model sees.

    The page is on this machine only and needs the token in its address. Nothing on the disk changes until you save.

    \b
    tavernkit studio
    tavernkit studio aria.png --book world.json --preset preset.json --chat chat.jsonl
    tavernkit studio aria.png --platform risu_ai
    """
    import json

    from tavernkit.cli.terminal import show_piece

    try:
        from tavernkit.studio.opening import Opened, open_studio
        from tavernkit.studio.run import run_studio
    except ModuleNotFoundError as error:
        raise ConfigError("Studio needs its extra: pip install 'tavernkit[server]'", code="EXTRA_MISSING") from error

    given = Opened(
        card=card,
        books=book or (),
        preset=preset,
        chat=chat,
        context_template=context_template,
        instruct=instruct,
        system_prompt=system_prompt,
        regex_scripts=regex_script or (),
        user=user,
        persona=persona,
        platform=platform,
        dialect=dialect,
    )

    def opened(address: str) -> None:
        show_piece((json.dumps({"url": address}) if as_json else f"TavernKit Studio: {address}") + "\n")
        if not no_open:
            import webbrowser

            webbrowser.open(address)

    run_studio(open_studio(given), port=port, opened=opened)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("studio")(studio)
