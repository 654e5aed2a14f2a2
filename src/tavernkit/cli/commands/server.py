"""``tavernkit server``."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tavernkit.cli.server_options import ConfigFile, DatabaseUrl, DataFolder, read_settings, server_extra

if TYPE_CHECKING:
    from tavernkit.server.keys import KeyInfo

app = typer.Typer(no_args_is_help=True, help="Manage the service's database.")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
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
    as_json: AsJson = False,
) -> None:
    r"""Remove the answers of old requests, the reports of old imports, and old usage. Sessions and messages stay.

    A running server does this every hour. You can run this command at the same time.

    \b
    tavernkit server prune --dry-run
    tavernkit server prune --db postgresql://tavern@db/tavern --turn-days 7
    """
    from tavernkit._values import counted
    from tavernkit.cli.terminal import show_line, show_report

    with server_extra():
        from tavernkit.server.retention import prune as remove

    settings = read_settings(data, db, config, turn_days=turn_days, job_days=job_days, usage_days=usage_days)
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


@app.command("import")
def import_command(
    path: Annotated[Path, typer.Argument(help="A SillyTavern data folder, a folder of cards, a ZIP file, or a file.")],
    data: DataFolder = None,
    db: DatabaseUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    r"""Import characters, books, presets, personas, groups and chats into the database.

    \b
    tavernkit server import ~/SillyTavern/data/default-user
    tavernkit server import aria.png
    """
    from tavernkit.cli.terminal import show_line, show_report

    with server_extra():
        from tavernkit.server.backups import import_path
    result = import_path(read_settings(data, db, config), path)
    if as_json:
        show_report(result)
        return
    show_line(_count_text(result["imported"]) or "nothing was imported")
    if skipped := _count_text(result.get("skipped")):
        show_line(f"there already: {skipped}")
    for warning in _as_list(result["warnings"]):
        show_line(f"warning: {warning}")


@app.command()
def export(
    target: Annotated[
        Path, typer.Argument(help="The ZIP file to write; with --session, a file in the platform's format.")
    ],
    session: Annotated[str | None, typer.Option("--session", metavar="ID", help="Export only this session.")] = None,
    data: DataFolder = None,
    db: DatabaseUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    r"""Export the library, and sessions as SillyTavern's JSONL or RisuAI's JSON.

    \b
    tavernkit server export everything.zip
    tavernkit server export chat.jsonl --session 0123456789abcdef
    """
    from tavernkit.cli.terminal import show_line, show_report

    with server_extra():
        from tavernkit.server.backups import export_all
    counts = export_all(read_settings(data, db, config), target, session=session)
    if as_json:
        show_report({"file": str(target), "exported": counts})
    else:
        show_line(_count_text(counts) or "there is nothing to write")


@app.command()
def backup(
    target: Annotated[Path, typer.Argument(help="The ZIP file to write.")],
    data: DataFolder = None,
    db: DatabaseUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    r"""Write the whole database to a file, even while a server is running. The file contains hashes of keys.

    \b
    tavernkit server backup tavern.zip
    tavernkit server backup tavern.zip --db postgresql://tavern@db/tavern
    """
    from tavernkit.cli.terminal import show_line, show_report

    with server_extra():
        from tavernkit.server.backups import backup as write
    rows = write(read_settings(data, db, config), target)
    if as_json:
        show_report({"file": str(target), "rows": rows})
    else:
        show_line(_count_text(rows))


@app.command()
def restore(
    source: Annotated[Path, typer.Argument(help="The backup to restore.")],
    data: DataFolder = None,
    db: DatabaseUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    r"""Fill an empty database from a backup. It may be of another kind (SQLite, PostgreSQL) than the original.

    \b
    tavernkit server restore tavern.zip --data new-folder
    tavernkit server restore tavern.zip --db postgresql://tavern@db/tavern
    """
    from tavernkit.cli.terminal import show_line, show_report

    with server_extra():
        from tavernkit.server.backups import restore as read
    rows = read(read_settings(data, db, config), source)
    if as_json:
        show_report({"rows": rows})
    else:
        show_line(_count_text(rows))


@app.command()
def migrate(data: DataFolder = None, db: DatabaseUrl = None, config: ConfigFile = None) -> None:
    r"""Create or update the database's tables. Starting the server does this too.

    \b
    tavernkit server migrate --db postgresql://tavern@db/tavern
    """
    from tavernkit.cli.terminal import show_line

    with server_extra():
        from tavernkit.server.backups import migrate as upgrade
    upgrade(read_settings(data, db, config))
    show_line("the database is up to date")


@app.command()
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
    as_json: AsJson = False,
) -> None:
    r"""List, create and revoke API keys.

    \b
    tavernkit server keys
    tavernkit server keys --create "discord bot" --scope chat --rate-limit 60
    """
    from dataclasses import asdict

    from tavernkit.cli.terminal import show_line, show_report

    with server_extra():
        from tavernkit.server import backups
        from tavernkit.server.keys import SCOPES, Allowance
    settings = read_settings(data, db, config)
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


@app.command()
def usage(
    first: Annotated[
        datetime | None,
        typer.Option(
            "--from", metavar="DAY", formats=["%Y-%m-%d"], help="The first day; by default 29 days before the last."
        ),
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
    as_json: AsJson = False,
) -> None:
    r"""Show what keys have used: requests, tokens, cost. Days are in UTC.

    \b
    tavernkit server usage --by key,day
    tavernkit server usage --from 2026-11-01 --to 2026-11-30 --csv
    """
    from tavernkit.cli.terminal import show, show_piece, show_report, table

    with server_extra():
        from tavernkit.server import backups
        from tavernkit.server.accounts import GROUPINGS, Grouping, usage_csv
    asked = [each.strip() for each in by.split(",") if each.strip()]
    if unknown := [each for each in asked if each not in GROUPINGS]:
        raise typer.BadParameter(f"{unknown[0]!r} is not one of {', '.join(GROUPINGS)}", param_hint="--by")
    chosen: list[Grouping] = [each for each in GROUPINGS if each in asked]
    begin, end = (each.date() if each is not None else None for each in (first, last))
    rows = backups.read_usage(read_settings(data, db, config), begin, end, chosen)
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


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(app, name="server")
