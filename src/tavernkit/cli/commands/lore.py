"""``tavernkit lore``."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from tavernkit.cli.files import STDIN, json_text, refuse_input, refuse_two_stdins, write_text
from tavernkit.cli.options import CHARACTER_BOOK, Platform, choice_option
from tavernkit.cli.process import ExitCode
from tavernkit.errors import FileFormatError, log_warning

if TYPE_CHECKING:
    from tavernkit.lore import LoreResult

Messages: TypeAlias = Sequence[tuple[str, str]]
"""Role and text of each message, oldest first."""
Scanner: TypeAlias = "Callable[[Messages], LoreResult]"
app = typer.Typer(no_args_is_help=True, help="Test and convert lorebooks.")

Book = Annotated[
    list[Path],
    typer.Argument(help="World books, lorebooks, or cards and modules with one; - is stdin.", show_default=False),
]
Said = Annotated[
    list[str] | None,
    typer.Option("--text", "-t", help="A message of the chat, oldest first; may be repeated.", show_default=False),
]
Chat = Annotated[
    Path | None, typer.Option("--chat", "-c", help="SillyTavern chat file; - is stdin.", show_default=False)
]
By = Annotated[
    Platform,
    choice_option(
        tuple(Platform), "--platform", "-p", help="The program whose rules to follow (default: silly_tavern)."
    ),
]
Depth = Annotated[int | None, typer.Option("--depth", min=0, help="How many messages to scan.", show_default=False)]
Budget = Annotated[int, typer.Option("--budget", min=0, help="Tokens that lore may take.")]
MAX_CHECKED = 5_000_000
"""The maximum of entries times turns for coverage, which takes some minutes."""

Seed = Annotated[int, typer.Option("--seed", help="Seed for dice and probabilities.")]


@app.command("scan")
def scan(
    books: Book,
    text: Said = None,
    chat: Chat = None,
    platform: By = Platform.SILLY_TAVERN,
    depth: Depth = None,
    budget: Budget = 2048,
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    r"""Show which entries a text or chat activates, and why the others stay out.

    \b
    tavernkit lore scan world.json --text "Who lit the lamp?"
    tavernkit lore scan world.json --chat chat.jsonl --depth 4
    tavernkit lore scan aria.png --platform risu_ai --text "the lamp"
    """
    from tavernkit.cli.terminal import show, show_report
    from tavernkit.cli.views import lore_table
    from tavernkit.report import lore_rows

    refuse_two_stdins(books, chat)
    rows = lore_rows(_scanner(books, platform, depth, budget, seed)(_messages(text, chat)))
    if as_json:
        show_report({"entries": [row.to_dict() for row in rows]})
        return
    active = sum(row.active for row in rows)
    show(lore_table(rows), f"\n{active} of {len(rows)} entries are in")


@app.command("test")
def check(
    books: Book,
    text: Said = None,
    chat: Chat = None,
    expect: Annotated[
        list[str] | None, typer.Option("--expect", help="Title or id of an entry that must fire; may be repeated.")
    ] = None,
    reject: Annotated[
        list[str] | None, typer.Option("--reject", help="Title or id of an entry that must not fire; may be repeated.")
    ] = None,
    platform: By = Platform.SILLY_TAVERN,
    depth: Depth = None,
    budget: Budget = 2048,
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    r"""Check that entries fire as expected, and exit with 1 if they do not.

    \b
    tavernkit lore test world.json --text "Who lit the lamp?" --expect "The lamp" --reject Dragons
    """
    from tavernkit.cli.terminal import show, show_report, table

    refuse_two_stdins(books, chat)
    rows = _scanner(books, platform, depth, budget, seed)(_messages(text, chat)).rows()
    checks = [(name, True) for name in expect or ()] + [(name, False) for name in reject or ()]
    if not checks:
        raise typer.BadParameter("name entries with --expect or --reject")
    results: list[tuple[str, bool, bool, str]] = []
    for name, wanted in checks:
        row = next((row for row in rows if name in (row.title, row.id, row.id.rpartition(".")[2])), None)
        if row is None:
            near = difflib.get_close_matches(name, [row.title for row in rows], n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            results.append((name, wanted, False, f"there is no such entry{hint}"))
        else:
            results.append((name, wanted, row.active is wanted, row.reason))
    if as_json:
        tests = [{"entry": n, "expected": w, "passed": p, "reason": r} for n, w, p, r in results]
        show_report({"tests": tests})
    else:
        cells = [("ok" if p else "FAILED", n, "fires" if w else "stays out", r) for n, w, p, r in results]
        show(table("", "entry", "should", "because", rows=cells))
    if not all(passed for _, _, passed, _ in results):
        raise typer.Exit(ExitCode.PROBLEMS)


@app.command("coverage")
def coverage(
    books: Book,
    chat: Annotated[
        list[Path],
        typer.Option("--chat", "-c", help="SillyTavern chat file, or a folder of them; may be repeated."),
    ],
    platform: By = Platform.SILLY_TAVERN,
    depth: Depth = None,
    budget: Budget = 2048,
    seed: Seed = 0,
    to_html: Annotated[
        Path | None, typer.Option("--html", help="Write a page to this file.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    r"""Go through chats turn by turn and show which entries never or always fire, and why.

    For long chats and large books, only the newest turns are scanned (entries times turns is at most five million).

    \b
    tavernkit lore coverage world.json --chat chat.jsonl
    tavernkit lore coverage world.json --chat chats/ --html coverage.html
    """
    import html

    from tavernkit._values import counted
    from tavernkit.authoring import lore_coverage
    from tavernkit.cli.terminal import show, show_report, table, track

    chats = [file for path in chat for file in (sorted(path.rglob("*.jsonl")) if path.is_dir() else [path])]
    if not chats:
        raise typer.BadParameter(f"there is no chat (*.jsonl) in {', '.join(map(str, chat))}")
    refuse_input(to_html, books, chats)
    every = [turn for file in chats for turn in _turns(_messages(None, file))]
    scan_chat = _scanner(books, platform, depth, budget, seed)
    listed = scan_chat([]).rows()
    turns = every[-max(1, MAX_CHECKED // max(1, len(listed))) :]
    if len(turns) < len(every):
        log_warning(f"{len(listed)} entries: only the newest {len(turns)} of {len(every)} turns are scanned")
    # The other entries have no match: there is nothing to count.
    scans = (scan_chat(messages[:end]).rows(untouched=0) for messages, end in track(turns, "scanning"))
    found = lore_coverage(scans, listed)
    cells = [
        (each.verdict, each.title or each.id, each.book, str(each.fired), str(each.by_recursion), str(each.over_budget))
        for each in found
    ]
    columns = ("verdict", "entry", "book", ">fired", ">by recursion", ">over budget")
    if to_html is not None:
        head = "".join(f"<th>{column.removeprefix('>')}</th>" for column in columns)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in cells)
        page = f'<!doctype html><meta charset="utf-8"><title>Coverage</title><h1>{len(turns)} turns</h1>'
        write_text(to_html, f"{page}<table border=1><tr>{head}</tr>{body}</table>\n")
    if as_json:
        show_report({"turns": len(turns), "entries": [each.to_dict() for each in found]})
        return
    scanned = f"{counted(len(turns), 'turn')} of {counted(len(chats), 'chat')}"
    show(table(*columns, rows=cells), f"\n{counted(len(found), 'entry', 'entries')} over {scanned}")


def _turns(messages: Messages) -> list[tuple[Messages, int]]:
    """Return the chat and its length at each turn of the user; without turns, the whole chat."""
    turns = [(messages, index + 1) for index, (role, _) in enumerate(messages) if role == "user"]
    return turns or [(messages, len(messages))]


@app.command("convert")
def convert(
    book: Annotated[
        Path, typer.Argument(help="A book of any kind, or a card or module with one; - is stdin.", show_default=False)
    ],
    target: Annotated[Path, typer.Argument(help="The new JSON file.", show_default=False)],
    to: Annotated[str, choice_option((*Platform, CHARACTER_BOOK), "--to", help="The format to write.")],
    force: Annotated[bool, typer.Option("--force", "-f", help="Overwrite an existing file.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    r"""Write a book as another program would import it, and report what gets lost. Exits with 1 if something does.

    \b
    tavernkit lore convert world.json lore.json --to risu_ai
    tavernkit lore convert aria.png world.json --to silly_tavern
    """
    from tavernkit._values import counted, is_mapping
    from tavernkit.cards import CharacterBook
    from tavernkit.cli.book_losses import losses
    from tavernkit.cli.files import check_free
    from tavernkit.cli.input_files import read_book
    from tavernkit.cli.terminal import complain, show, show_report
    from tavernkit.conversation._books import world_book

    read = read_book(book)
    check_free(target, force=force)
    if to == Platform.RISU_AI:
        from tavernkit.risu_ai import Lorebook

        lorebook = Lorebook.from_json(read)
        value: object = lorebook.to_json()
        count = len(lorebook.entries)
    elif to == CHARACTER_BOOK and CharacterBook.fits(read):
        value, count = read, len(CharacterBook.from_json(read).entries)
    else:
        world = world_book(read, "stdin" if str(book) == STDIN else book.stem)
        value = world.to_json() if to == Platform.SILLY_TAVERN else world.to_character_book()
        count = sum(is_mapping(raw) for _, raw in world.raw_entries())
    lost = losses(read, to)
    write_text(target, json_text(value))
    if as_json:
        show_report({"file": str(target), "format": to, "entries": count, "lost": lost})
    else:
        show(f"{target}: {counted(count, 'entry', 'entries')} for {to}")
        for line in lost:
            complain(line, kind="note")
    if lost:
        raise typer.Exit(ExitCode.PROBLEMS)


@app.command("index")
def index(
    book: Annotated[Path, typer.Argument(help="A SillyTavern world book.", show_default=False)],
    target: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write it (default: next to the book).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    r"""Write an index next to a large book, so that it loads three times as fast.

    The index is used wherever the book is read. After you change the book, run this command again.

    \b
    tavernkit lore index world.json
    """
    from tavernkit._values import counted
    from tavernkit.cli.files import naming
    from tavernkit.cli.terminal import show, show_report
    from tavernkit.silly_tavern import WorldBook

    refuse_input(target, book)
    with naming(book):
        read = WorldBook.load(book, index=None, warn=lambda message: None)
        written = read.index(target)
    if as_json:
        show_report({"file": str(written), "entries": len(read), "bytes": written.stat().st_size})
    else:
        show(f"{written}: {counted(len(read), 'entry', 'entries')}, {written.stat().st_size:,} bytes")


def _messages(text: list[str] | None, chat: Path | None) -> Messages:
    said = [("user", each) for each in text or ()]
    if chat is None:
        if not said:
            raise typer.BadParameter("pass the chat with --text or --chat")
        return said
    from tavernkit.cli.files import naming, readable, shown
    from tavernkit.silly_tavern import ChatFile

    with naming(chat):
        lines = (line for line in ChatFile.load(readable(chat)).messages if not line.is_system)
    found = [("user" if line.is_user else "char", line.mes) for line in lines] + said
    if not found:
        raise FileFormatError(f"{shown(chat)}: there is no message in it")
    return found


def _scanner(books: list[Path], platform: Platform, depth: int | None, budget: int, seed: int) -> Scanner:
    """Read the books once, and scan chats with them."""
    make = _risu_ai_scanner if platform is Platform.RISU_AI else _silly_tavern_scanner
    return make(books, depth, budget, seed)


def _silly_tavern_scanner(books: list[Path], depth: int | None, budget: int, seed: int) -> Scanner:
    import random

    from tavernkit.budget import count_tokens
    from tavernkit.cli.input_files import load_world
    from tavernkit.silly_tavern._world_info import ScanInput, SelectedBooks, WorldInfoEngine, WorldInfoSettings

    settings = WorldInfoSettings(budget=100)
    if depth is not None:
        settings = replace(settings, depth=depth)
    selected = SelectedBooks(global_=tuple(load_world(path) for path in books))
    engine = WorldInfoEngine()

    def scan_chat(messages: Messages) -> LoreResult:
        given = ScanInput(
            messages=[text for _, text in reversed(messages)],
            books=selected,
            max_context=budget,
            count_tokens=count_tokens,
            settings=settings,
            random=random.Random(seed).random,
        )
        return engine.scan(given)

    return scan_chat


def _risu_ai_scanner(books: list[Path], depth: int | None, budget: int, seed: int) -> Scanner:
    import random

    from tavernkit.budget import count_tokens
    from tavernkit.cli.input_files import load_lorebook
    from tavernkit.risu_ai._lorebook import LorebookEngine, LorebookEntry, LorebookSettings, LoreMessage, ScanInput

    raw = [(path.name, entry) for path in books for entry in load_lorebook(path).entries]
    found = (LorebookEntry.from_json(entry, warn=log_warning, book=name) for name, entry in raw)
    entries = [entry for entry in found if entry is not None]
    settings = LorebookSettings(token_budget=budget)
    engine = LorebookEngine()
    compiled = engine.compile(entries)

    def scan_chat(messages: Messages) -> LoreResult:
        given = ScanInput(
            entries=compiled,
            messages=[LoreMessage(role, text) for role, text in messages],
            settings=settings if depth is None else replace(settings, scan_depth=depth),
            count_tokens=count_tokens,
            random=random.Random(seed).random,
            warn=log_warning,
        )
        return engine.scan(given)

    return scan_chat


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(app, name="lore")
