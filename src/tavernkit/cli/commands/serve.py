"""``tavernkit serve`` and ``tavernkit server``."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tavernkit.server.config import ServerConfig
    from tavernkit.server.keys import KeyInfo

server = typer.Typer(no_args_is_help=True, help="Manage the service's database.")

DataFolder = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="Folder for the SQLite file (default: ./tavernkit-data).")
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option("--db", metavar="URL", help="URL of a database: postgresql://… or sqlite:///….", show_default=False),
]
ConfigFile = Annotated[Path | None, typer.Option("--config", "-c", help="A TOML file with settings.")]


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

    _check_paths(data, config)
    with _extra():
        from tavernkit.server.config import load_config, parse_upstream
        from tavernkit.server.run import serve as run

    given: dict[str, object] = {"data": data, "db": db, "host": host, "port": port, "workers": workers}
    given |= {"characters": characters, "from_sillytavern": from_sillytavern, "watch": watch or None}
    given["write_back"] = write_back or None
    overrides: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    if upstream is not None and (upstream == "scripted" or ":" in upstream):
        name, settings = parse_upstream(upstream)
        overrides |= {"upstream": name, "upstreams": {name: settings}}
    elif upstream is not None:
        overrides["upstream"] = upstream
    settings = load_config(config, overrides=overrides)
    with _extra():
        run(settings, say=lambda line: show_piece(f"{line}\n"), as_json=as_json, save=from_risuai)


@server.command()
def prune(
    data: DataFolder = None,
    db: DatabaseUrl = None,
    config: ConfigFile = None,
    turn_days: Annotated[
        float | None,
        typer.Option(
            "--turn-days", metavar="DAYS", min=0, help="How many days to keep answers of requests; 0 for forever."
        ),
    ] = None,
    job_days: Annotated[
        float | None,
        typer.Option(
            "--job-days", metavar="DAYS", min=0, help="How many days to keep reports of imports; 0 for forever."
        ),
    ] = None,
    usage_days: Annotated[
        float | None,
        typer.Option(
            "--usage-days", metavar="DAYS", min=0, help="How many days to keep the usage of keys; 0 for forever."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would be removed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    r"""Remove the answers of old requests, the reports of old imports, and old usage. Sessions and messages stay.

    A running server does this every hour. You can run this command at the same time.

    \b
    tavernkit server prune --dry-run
    tavernkit server prune --db postgresql://tavern@db/tavern --turn-days 7
    """
    from tavernkit._values import counted
    from tavernkit.cli.terminal import show_line, show_report

    _check_paths(data, config)
    with _extra():
        from tavernkit.server.config import load_config
        from tavernkit.server.retention import prune as remove

    given = {"data": data, "db": db, "turn_days": turn_days, "job_days": job_days, "usage_days": usage_days}
    settings = load_config(config, overrides={name: value for name, value in given.items() if value is not None})
    removed = remove(settings, dry_run=dry_run)
    days = {"turns": settings.turn_days, "jobs": settings.job_days, "usage": settings.usage_days}
    if as_json:
        show_report({"dry_run": dry_run, "days": days, "removed": removed})
        return
    verb = "would be removed" if dry_run else "removed"
    for name, (one, more) in {
        "turns": ("turn", "turns"),
        "jobs": ("job", "jobs"),
        "usage": ("row of usage", "rows of usage"),
    }.items():
        if days[name]:
            show_line(f"{counted(removed[name], one, more)} {verb}: older than {days[name]:g} days")
        else:
            show_line(f"{more} are kept forever")


@server.command("import")
def import_command(
    path: Annotated[Path, typer.Argument(help="A SillyTavern data folder, a folder of cards, a ZIP file, or a file.")],
    data: DataFolder = None,
    db: DatabaseUrl = None,
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    r"""Import characters, books, presets, personas, groups and chats into the database.

    \b
    tavernkit server import ~/SillyTavern/data/default-user
    tavernkit server import aria.png
    """
    from tavernkit.cli.terminal import show_line, show_report

    with _extra():
        from tavernkit.server.backups import import_path
    result = import_path(_settings(data, db, config), path)
    if as_json:
        show_report(result)
        return
    show_line(_count_text(result["imported"]) or "nothing was imported")
    if skipped := _count_text(result.get("skipped")):
        show_line(f"there already: {skipped}")
    for warning in _as_list(result["warnings"]):
        show_line(f"warning: {warning}")


@server.command()
def export(
    target: Annotated[
        Path, typer.Argument(help="The ZIP file to write; with --session, a file in the platform's format.")
    ],
    session: Annotated[str | None, typer.Option("--session", metavar="ID", help="Export only this session.")] = None,
    data: DataFolder = None,
    db: DatabaseUrl = None,
    config: ConfigFile = None,
) -> None:
    r"""Export the library, and sessions as SillyTavern's JSONL or RisuAI's JSON.

    \b
    tavernkit server export everything.zip
    tavernkit server export chat.jsonl --session 0123456789abcdef
    """
    from tavernkit.cli.terminal import show_line

    with _extra():
        from tavernkit.server.backups import export_all
    show_line(
        _count_text(export_all(_settings(data, db, config), target, session=session)) or "there is nothing to write"
    )


@server.command()
def backup(
    target: Annotated[Path, typer.Argument(help="The ZIP file to write.")],
    data: DataFolder = None,
    db: DatabaseUrl = None,
    config: ConfigFile = None,
) -> None:
    r"""Write the whole database to a file, even while a server is running. The file contains hashes of keys.

    \b
    tavernkit server backup tavern.zip
    tavernkit server backup tavern.zip --db postgresql://tavern@db/tavern
    """
    from tavernkit.cli.terminal import show_line

    with _extra():
        from tavernkit.server.backups import backup as write
    show_line(_count_text(write(_settings(data, db, config), target)))


@server.command()
def restore(
    source: Annotated[Path, typer.Argument(help="The backup to restore.")],
    data: DataFolder = None,
    db: DatabaseUrl = None,
    config: ConfigFile = None,
) -> None:
    r"""Fill an empty database from a backup. It may be of another kind (SQLite, PostgreSQL) than the original.

    \b
    tavernkit server restore tavern.zip --data new-folder
    tavernkit server restore tavern.zip --db postgresql://tavern@db/tavern
    """
    from tavernkit.cli.terminal import show_line

    with _extra():
        from tavernkit.server.backups import restore as read
    show_line(_count_text(read(_settings(data, db, config), source)))


@server.command()
def migrate(data: DataFolder = None, db: DatabaseUrl = None, config: ConfigFile = None) -> None:
    r"""Create or update the database's tables. Starting the server does this too.

    \b
    tavernkit server migrate --db postgresql://tavern@db/tavern
    """
    from tavernkit.cli.terminal import show_line

    with _extra():
        from tavernkit.server.backups import migrate as upgrade
    upgrade(_settings(data, db, config))
    show_line("the database is up to date")


@server.command()
def keys(
    create: Annotated[
        str | None, typer.Option("--create", metavar="NAME", help="Create a key and show it once.")
    ] = None,
    revoke: Annotated[str | None, typer.Option("--revoke", metavar="ID", help="Revoke a key.")] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", metavar="SCOPE", help="What a new key may do: chat, read, write, admin."),
    ] = None,
    rate_limit: Annotated[
        int | None, typer.Option("--rate-limit", min=1, help="Requests per minute for the new key.")
    ] = None,
    daily_tokens: Annotated[
        int | None, typer.Option("--daily-tokens", min=1, help="Tokens per day for the new key.")
    ] = None,
    daily_cost: Annotated[
        float | None, typer.Option("--daily-cost", help="Cost per day for the new key, by the models' prices.")
    ] = None,
    data: DataFolder = None,
    db: DatabaseUrl = None,
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    r"""List, create and revoke API keys.

    \b
    tavernkit server keys
    tavernkit server keys --create "discord bot" --scope chat --rate-limit 60
    """
    from dataclasses import asdict

    from tavernkit.cli.terminal import show_line, show_report

    with _extra():
        from tavernkit.server import backups
        from tavernkit.server.keys import SCOPES, Allowance
    settings = _settings(data, db, config)
    if revoke is not None:
        backups.revoke_key(settings, revoke)
    if create is not None:
        unknown = sorted(set(scope or ()) - set(SCOPES))
        if unknown:
            raise typer.BadParameter(f"{unknown[0]!r} is not a scope: {', '.join(SCOPES)}", param_hint="--scope")
        if daily_cost is not None and not daily_cost > 0:
            raise typer.BadParameter("a budget must be more than 0", param_hint="--daily-cost")
        asked = scope or ["chat"]
        allowance = Allowance(rate_limit=rate_limit, daily_tokens=daily_tokens, daily_cost=daily_cost)
        info, token = backups.create_key(settings, create, tuple(each for each in SCOPES if each in asked), allowance)
        if as_json:
            show_report({**asdict(info), "key": token})
        else:
            show_line(f"{info.id}  {token}")
        return
    listed = backups.list_keys(settings)
    if as_json:
        show_report({"keys": [asdict(each) for each in listed]})
        return
    if not listed:
        show_line("there are no keys: create one with --create NAME")
    for each in listed:
        state = "revoked" if each.revoked_at is not None else ",".join(each.scopes)
        show_line("  ".join([each.id, state, each.name, *_limits(each)]))


def _limits(key: KeyInfo) -> list[str]:
    """Return the limits of a key, for people."""
    rate = [f"{key.rate_limit} requests/minute"] if key.rate_limit is not None else []
    tokens = [f"{key.daily_tokens} tokens/day"] if key.daily_tokens is not None else []
    return [*rate, *tokens, *([f"{key.daily_cost:g}/day"] if key.daily_cost is not None else [])]


@server.command()
def usage(
    first: Annotated[
        datetime | None,
        typer.Option("--from", metavar="DAY", formats=["%Y-%m-%d"], help="The first day; by default 29 days ago."),
    ] = None,
    last: Annotated[
        datetime | None,
        typer.Option("--to", metavar="DAY", formats=["%Y-%m-%d"], help="The last day; by default today."),
    ] = None,
    by: Annotated[
        str, typer.Option("--by", help="How to group the sums: any of key, character, model, day.")
    ] = "key,character,model,day",
    data: DataFolder = None,
    db: DatabaseUrl = None,
    config: ConfigFile = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    r"""Show what keys have used: requests, tokens, cost. Days are in UTC.

    \b
    tavernkit server usage --by key,day
    tavernkit server usage --from 2026-11-01 --to 2026-11-30 --csv
    """
    from tavernkit.cli.terminal import show, show_piece, show_report, table

    with _extra():
        from tavernkit.server import backups
        from tavernkit.server.accounts import GROUPINGS, Grouping, usage_csv
    asked = [each.strip() for each in by.split(",") if each.strip()]
    if unknown := [each for each in asked if each not in GROUPINGS]:
        raise typer.BadParameter(f"{unknown[0]!r} is not one of {', '.join(GROUPINGS)}", param_hint="--by")
    chosen: list[Grouping] = [each for each in GROUPINGS if each in asked]
    begin, end = (each.date() if each is not None else None for each in (first, last))
    rows = backups.read_usage(_settings(data, db, config), begin, end, chosen)
    if as_json:
        show_report({"usage": rows})
    elif as_csv:
        show_piece(usage_csv(rows, chosen))
    elif not rows:
        show("nothing was used")
    else:
        columns = [_heading(name, value) for name, value in rows[0].items()]
        show(table(*columns, rows=[[_cell(value) for value in row.values()] for row in rows]))


def _heading(name: str, value: object) -> str:
    """Return the heading of a column: numbers and days are on the right, and never in two lines."""
    return f">{name.removesuffix('_tokens')}" if name == "day" or not isinstance(value, str) else name


def _cell(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _settings(data: Path | None, db: str | None, config: Path | None) -> ServerConfig:
    _check_paths(data, config)
    with _extra():
        from tavernkit.server.config import load_config
    given = {"data": data, "db": db}
    return load_config(config, overrides={name: value for name, value in given.items() if value is not None})


def _count_text(counts: object) -> str:
    from tavernkit._values import counted, is_mapping

    listed = counts.items() if is_mapping(counts) else ()
    return ", ".join(counted(int(str(number)), name, _plural(name)) for name, number in listed)


def _plural(name: str) -> str:
    """Return the plural of a kind of item; the names of tables already have theirs."""
    return {"regex": "regexes", "usage": "usage"}.get(name, name if name.endswith("s") else "")


def _as_list(values: object) -> list[str]:
    from tavernkit._values import is_sequence

    return [str(each) for each in values] if is_sequence(values) else []


def _check_paths(data: Path | None, config: Path | None) -> None:
    if config is not None and not config.is_file():
        raise typer.BadParameter(f"there is no file {str(config)!r}")
    if data is not None and data.exists() and not data.is_dir():
        raise typer.BadParameter(f"{data} is a file: --data is a folder")


@contextmanager
def _extra() -> Generator[None]:
    """Say what to install if a package for the server is missing."""
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
