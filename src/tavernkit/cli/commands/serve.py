"""``tavernkit serve``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tavernkit.cli.server_options import ConfigFile, DatabaseUrl, DataFolder, read_settings, server_extra


def serve(
    data: DataFolder = None,
    db: DatabaseUrl = None,
    upstream: Annotated[
        str | None,
        typer.Option(
            "--upstream",
            metavar="MODEL",
            help="The model: scripted, provider:name (openai:gpt-4o), https://host/v1#name, anthropic=https://…#name, "
            "or the name of an upstream in the config file.",
        ),
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on (default: 127.0.0.1).")] = None,
    port: Annotated[int | None, typer.Option("--port", min=0, max=65535, help="Port (default: 8080).")] = None,
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Worker processes (default: 1).")] = None,
    config: ConfigFile = None,
    characters: Annotated[
        Path | None,
        typer.Option("--characters", metavar="DIR", help="Offer the cards, books and presets in a folder."),
    ] = None,
    from_sillytavern: Annotated[
        Path | None,
        typer.Option("--from-sillytavern", metavar="DIR", help="Offer a SillyTavern data folder: data/default-user."),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Pick up changes in these folders.")] = False,
    write_back: Annotated[
        bool,
        typer.Option(
            "--write-back",
            help="Write chats back into the data folder or the save. "
            "Files that another program has changed in the meantime are not overwritten.",
        ),
    ] = False,
    from_risuai: Annotated[
        Path | None,
        typer.Option(
            "--from-risuai",
            metavar="PATH",
            exists=True,
            help="First import a RisuAI save: a backup, a database or its folder. "
            "Chats that were imported before stay as they are.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address and key as one line of JSON.")] = False,
) -> None:
    r"""Let any OpenAI client talk to your characters.

    \b
    tavernkit serve
    tavernkit serve --upstream openrouter:deepseek/deepseek-chat
    tavernkit serve --upstream http://localhost:8000/v1#my-model
    tavernkit serve --characters ~/cards --watch
    tavernkit serve --from-sillytavern ~/SillyTavern/data/default-user
    tavernkit serve --from-sillytavern ~/SillyTavern/data/default-user --watch --write-back
    tavernkit serve --from-risuai ~/backup.bin
    tavernkit serve --host 0.0.0.0 --db postgresql://tavern@db/tavern --workers 4
    """
    from tavernkit.cli.terminal import show_piece

    with server_extra():
        from tavernkit.server.config import parse_upstream
        from tavernkit.server.run import serve as run

    given: dict[str, object] = {"host": host, "port": port, "workers": workers, "characters": characters}
    given |= {"from_sillytavern": from_sillytavern, "watch": watch or None, "write_back": write_back or None}
    if upstream is not None and (upstream == "scripted" or ":" in upstream):
        name, upstream_settings = parse_upstream(upstream)
        given |= {"upstream": name, "upstreams": {name: upstream_settings}}
    else:
        given["upstream"] = upstream
    settings = read_settings(data, db, config, **given)
    with server_extra():
        run(settings, say=lambda line: show_piece(f"{line}\n"), as_json=as_json, save=from_risuai)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(serve)
