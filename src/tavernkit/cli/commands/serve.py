"""``tavernkit serve``, and what is done beside a server that runs."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

server = typer.Typer(no_args_is_help=True, help="The service's database.")

DataFolder = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="Folder of the SQLite file; by default ./tavernkit-data.")
]
DatabaseUrl = Annotated[
    str | None, typer.Option("--db", help="URL of a database: postgresql://… or sqlite:///….", show_default=False)
]
ConfigFile = Annotated[Path | None, typer.Option("--config", "-c", help="A TOML file with settings.")]


def serve(
    data: DataFolder = None,
    db: DatabaseUrl = None,
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
    config: ConfigFile = None,
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
    from tavernkit.cli.terminal import show_piece

    _check_paths(data, config)
    with _extra():
        from tavernkit.server.config import load_config, parse_upstream
        from tavernkit.server.run import serve as run

    given = {"data": data, "db": db, "host": host, "port": port, "workers": workers}
    overrides: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    if upstream is not None and (upstream == "scripted" or "://" in upstream):
        name, settings = parse_upstream(upstream)
        overrides |= {"upstream": name, "upstreams": {name: settings}}
    elif upstream is not None:
        overrides["upstream"] = upstream
    settings = load_config(config, overrides=overrides)
    run(settings, say=lambda line: show_piece(f"{line}\n"), as_json=as_json)


@server.command()
def prune(
    data: DataFolder = None,
    db: DatabaseUrl = None,
    config: ConfigFile = None,
    turn_days: Annotated[
        float | None,
        typer.Option("--turn-days", metavar="DAYS", min=0, help="Keep answers of requests so long; 0: for ever."),
    ] = None,
    job_days: Annotated[
        float | None,
        typer.Option("--job-days", metavar="DAYS", min=0, help="Keep reports of imports so long; 0: for ever."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would be removed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    r"""Remove the answers of old requests and the reports of old imports. Sessions and messages stay.

    A server that runs does so itself every hour; this may be run beside it.

    \b
    tavernkit server prune --dry-run
    tavernkit server prune --db postgresql://tavern@db/tavern --turn-days 7
    """
    from tavernkit.cli.terminal import show_report, show_text

    _check_paths(data, config)
    with _extra():
        from tavernkit.server.config import load_config
        from tavernkit.server.prune import prune as remove

    given = {"data": data, "db": db, "turn_days": turn_days, "job_days": job_days}
    settings = load_config(config, overrides={name: value for name, value in given.items() if value is not None})
    removed = remove(settings, dry_run=dry_run)
    days = {"turns": settings.turn_days, "jobs": settings.job_days}
    if as_json:
        show_report({"dry_run": dry_run, "days": days, "removed": removed})
        return
    verb = "would be removed" if dry_run else "removed"
    for name, kept in days.items():
        show_text(f"{removed[name]} {name} {verb}: older than {kept:g} days" if kept else f"{name} are kept for ever")


def _check_paths(data: Path | None, config: Path | None) -> None:
    if config is not None and not config.is_file():
        raise typer.BadParameter(f"there is no file {str(config)!r}")
    if data is not None and data.exists() and not data.is_dir():
        raise typer.BadParameter(f"{data} is a file: --data is a folder")


@contextmanager
def _extra() -> Generator[None]:
    """Say what to install where a part of the server is missing."""
    from tavernkit.errors import ConfigError

    try:
        yield
    except ModuleNotFoundError as error:
        message = "the server needs its extra: pip install 'tavernkit[server]'"
        raise ConfigError(message, code="EXTRA_MISSING") from error


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(serve)
    app.add_typer(server, name="server")
