"""``tavernkit card``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tavernkit.cli.process import ExitCode

if TYPE_CHECKING:
    from tavernkit.cards import Asset, Bundle, CardVersion, SaveReport

app = typer.Typer(no_args_is_help=True, help="Show, convert, extract and embed character cards.")

CardPath = Annotated[Path, typer.Argument(help="The card, in any format; - is stdin.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_FIELDS = (
    "description",
    "personality",
    "scenario",
    "first_mes",
    "mes_example",
    "system_prompt",
    "post_history_instructions",
    "creator_notes",
)


@app.command("show")
def show_card(
    card: CardPath,
    full: Annotated[bool, typer.Option("--full", help="Show whole texts.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the card as JSON, upgraded to V3.")] = False,
) -> None:
    r"""Show what is in a card.

    \b
    tavernkit card show aria.png
    tavernkit card show aria.charx --full
    tavernkit card show aria.png --json
    """
    from tavernkit.budget import count_tokens
    from tavernkit.cards import convert
    from tavernkit.cli.files import character_of, load_card
    from tavernkit.cli.terminal import show, show_json, table

    bundle = load_card(card)
    character = character_of(bundle, card)
    if as_json:
        show_json(convert(character, "v3")[0].to_card())
        return
    facts = [
        ("name", character.name),
        ("format", f"{bundle.source_format or '?'}, card {character.version}"),
        ("creator", f"{character.creator} {character.character_version}".strip()),
        ("tags", ", ".join(character.tags)),
        ("greetings", str(1 + len(character.alternate_greetings))),
        ("lore entries", str(sum(len(book.entries) for book in bundle.books))),
        ("assets", str(len(bundle.assets))),
    ]
    facts_table = table("", "", rows=[(name, value) for name, value in facts if value])
    facts_table.show_header = False
    show(facts_table)
    rows = [
        (name, str(count_tokens(text)), text if full else _preview(text))
        for name in _FIELDS
        if (text := str(getattr(character, name)))
    ]
    show("", table("field", ">tokens", "text", rows=rows))


@app.command("convert")
def convert_card(
    card: CardPath,
    target: Annotated[Path, typer.Argument(help="The new file; its extension chooses the format.", show_default=False)],
    version: Annotated[
        str | None,
        typer.Option(
            "--version", metavar="VERSION", help="v1, v2 or v3 (default: the card's own).", show_default=False
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Overwrite an existing file.")] = False,
    as_json: AsJson = False,
) -> None:
    r"""Write a card in another format or version, and report what that format does not support.

    \b
    tavernkit card convert aria.png aria.charx
    tavernkit card convert aria.json aria.png --version v2
    """
    from tavernkit.cards import save
    from tavernkit.cli.files import load_card

    bundle = load_card(card)
    _check_target(target, force=force)
    report = save(bundle, target, version=_version(version))
    _report(report, target, as_json=as_json)


@app.command("extract")
def extract(
    card: CardPath,
    folder: Annotated[Path, typer.Argument(help="Where to put the parts; created if needed.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", "-f", help="Overwrite existing files.")] = False,
    as_json: AsJson = False,
) -> None:
    r"""Extract the parts of a card as files: card.json, lorebooks, the picture and all assets.

    \b
    tavernkit card extract aria.charx aria/
    """
    from tavernkit.cli.files import load_card
    from tavernkit.cli.terminal import show, show_report

    bundle = load_card(card)
    folder.mkdir(parents=True, exist_ok=True)
    written = _extract(bundle, folder, force=force)
    if as_json:
        show_report({"folder": str(folder), "files": written})
    else:
        show(*(f"{folder}/{name}" for name in written))


def _extract(bundle: Bundle, folder: Path, *, force: bool) -> list[str]:
    from tavernkit.cli.files import check_free, json_text
    from tavernkit.cli.terminal import complain, track
    from tavernkit.errors import TavernKitError

    written: list[str] = []

    def put(name: str, data: bytes) -> None:
        check_free(folder / name, force=force)
        (folder / name).write_bytes(data)
        written.append(name)

    if bundle.card is not None:
        put("card.json", json_text(bundle.card.to_card()).encode())
    for number, book in enumerate(bundle.books):
        put("book.json" if number == 0 else f"book-{number + 1}.json", json_text(book.to_json()).encode())
    taken = {name.lower() for name in written}
    assets = [("picture", bundle.image)] if bundle.image is not None else []
    assets += [(f"{asset.type}-{asset.name}", asset) for asset in bundle.assets]
    for label, asset in track(assets, "assets"):
        if not asset.available:
            complain(f"{asset.name!r} is not in the file ({asset.uri[:60]})", kind="note")
            continue
        try:
            put(_free_name(label, asset, taken), asset.read())
        except TavernKitError as error:
            complain(f"{asset.name!r} cannot be read: {error}")
    return written


def _free_name(label: str, asset: Asset, taken: set[str]) -> str:
    """Return a unique file name that stays inside the folder."""
    from tavernkit.cards._silly_tavern.stored import sanitize

    stem = sanitize(label)[:80] or "asset"
    ext = sanitize(asset.ext)[:8] or "bin"
    name, number = f"{stem}.{ext}", 2
    while name.lower() in taken:
        name, number = f"{stem}-{number}.{ext}", number + 1
    taken.add(name.lower())
    return name


@app.command("embed")
def embed(
    card: Annotated[Path, typer.Argument(help="The card: JSON or any other format; - is stdin.", show_default=False)],
    picture: Annotated[Path, typer.Argument(help="The picture to put it into; - is stdin.", show_default=False)],
    target: Annotated[Path, typer.Argument(help="The new file.", show_default=False)],
    version: Annotated[
        str | None,
        typer.Option(
            "--version", metavar="VERSION", help="v1, v2 or v3 (default: the card's own).", show_default=False
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Overwrite an existing file.")] = False,
    as_json: AsJson = False,
) -> None:
    r"""Put a card into a picture.

    \b
    tavernkit card embed aria.json portrait.png aria.png
    """
    from tavernkit.cards import Asset, save
    from tavernkit.cli.files import load_card, read_bytes

    bundle = load_card(card)
    _check_target(target, force=force, picture=True)
    image = Asset.from_bytes(read_bytes(picture), type="icon", name="main", ext=picture.suffix.lstrip(".").lower())
    report = save(bundle.replace(image=image), target, version=_version(version))
    _report(report, target, as_json=as_json)


def _version(value: str | None) -> CardVersion | None:
    if value is None or value in ("v1", "v2", "v3"):
        return value
    raise typer.BadParameter("--version is v1, v2 or v3")


def _check_target(target: Path, *, force: bool, picture: bool = False) -> None:
    """Refuse a target whose extension is not a known format (or not a picture), or that already exists."""
    from tavernkit.cards._saving import SUFFIXES
    from tavernkit.cli.files import check_free

    known = [ending for ending in SUFFIXES if not picture or ending not in (".json", ".yaml", ".yml", ".risum")]
    if target.suffix.lower() not in known:
        what = "the format" if not picture else "a format with a picture"
        raise typer.BadParameter(f"{target}: its ending must name {what}: {', '.join(known)}")
    check_free(target, force=force)


def _report(report: SaveReport, target: Path, *, as_json: bool) -> None:
    from tavernkit.cli.terminal import complain, show, show_report

    notes = report.conversion.notes if report.conversion is not None else ()
    if as_json:
        show_report(
            {
                "file": str(target),
                "format": str(report.format),
                "version": report.version,
                "notes": [{"pointer": n.pointer, "reason": n.reason, "kept_at": n.kept_at} for n in notes],
                "warnings": list(report.warnings),
            }
        )
    else:
        show(f"{target}: {report.format}" + (f", card {report.version}" if report.version else ""))
        for note in notes:
            fate = f"kept at {note.kept_at}" if note.kept_at else "lost"
            complain(f"{note.pointer}: {note.reason} ({fate})", kind="note")
        for warning in report.warnings:
            complain(warning)
    if report.warnings or any(note.kept_at is None for note in notes):
        raise typer.Exit(ExitCode.PROBLEMS)


def _preview(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 72 else line[:71] + "…"


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(app, name="card")
