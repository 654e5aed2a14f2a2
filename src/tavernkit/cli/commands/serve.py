"""``tavernkit serve``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def serve(
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Folder of the SQLite file; by default ./tavernkit-data."),
    ] = None,
    db: Annotated[
        str | None, typer.Option("--db", help="URL of a database: postgresql://… or sqlite:///….", show_default=False)
    ] = None,
    upstream: Annotated[
        str | None,
        typer.Option(
            "--upstream",
            help="Where the model is: scripted, https://host/v1#model, anthropic=https://…#model, google=…, "
            "or the name of an upstream of the config file.",
        ),
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on; by default 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option("--port", min=0, max=65535, help="Port; by default 8080.")] = None,
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Processes; by default 1.")] = None,
    config: Annotated[Path | None, typer.Option("--config", "-c", help="A TOML file with settings.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the address and the rest as one line of JSON.")
    ] = False,
) -> None:
    r"""Let any OpenAI client talk to your characters.

    \b
    tavernkit serve
    tavernkit serve --upstream https://openrouter.ai/api/v1#deepseek/deepseek-chat
    tavernkit serve --host 0.0.0.0 --db postgresql://tavern@db/tavern --workers 4
    """
    from tavernkit.errors import ConfigError

    if config is not None and not config.is_file():
        raise typer.BadParameter(f"there is no file {str(config)!r}")
    if data is not None and data.exists() and not data.is_dir():
        raise typer.BadParameter(f"{data} is a file: --data is a folder")
    try:
        from tavernkit.server.config import load_config, parse_upstream
        from tavernkit.server.run import serve as run
    except ModuleNotFoundError as error:
        raise ConfigError(
            "the server needs its extra: pip install 'tavernkit[server]'", code="EXTRA_MISSING"
        ) from error

    given = {"data": data, "db": db, "host": host, "port": port, "workers": workers}
    overrides: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    if upstream is not None and (upstream == "scripted" or "://" in upstream):
        name, settings = parse_upstream(upstream)
        overrides |= {"upstream": name, "upstreams": {name: settings}}
    elif upstream is not None:
        overrides["upstream"] = upstream
    settings = load_config(config, overrides=overrides)
    run(settings, say=typer.echo, as_json=as_json)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(serve)
