"""``tavernkit tokens``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.text import Text

    from tavernkit.budget._file_tokenizer import Tokenization

_LOOKED_AT = 8192
"""How many bytes decide if a file is text."""
_STYLES = ("black on light_sky_blue1", "black on khaki1", "black on light_pink1", "black on pale_green1")


def tokens(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Text files; without any, or with -, stdin is read.", show_default=False)
    ] = None,
    text: Annotated[str | None, typer.Option("--text", "-t", help="Count this text instead.")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="The model to count tokens for.")] = None,
    show: Annotated[bool, typer.Option("--show", help="Show where each token begins and ends.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    r"""Count tokens, offline, with the model's own tokenizer if it is known.

    \b
    tavernkit tokens --text "Hello, keeper." --model gpt-4o
    tavernkit tokens --show --text "Hello, keeper." --model llama-3
    tavernkit tokens notes.txt --json
    """
    from tavernkit.budget import default_estimator
    from tavernkit.cli import terminal

    estimator = default_estimator()
    how = estimator.describe(model)
    if model is not None and how.get("source") == "default":
        terminal.complain(f"no tokenizer is known for {model!r}: counted with {how.get('encoding')}", kind="note")
    counted = [(name, content, estimator.tokenize(content, model)) for name, content in _texts(files, text)]
    if as_json:
        terminal.show_report(
            {
                "model": model,
                "estimator": how,
                "texts": [
                    {"name": name, "characters": len(content), "tokens": tokenized.token_count}
                    | ({"tokenization": tokenized.to_dict()} if show else {})
                    for name, content, tokenized in counted
                ],
            }
        )
        return
    if show:
        for _, content, tokenized in counted:
            terminal.show(_colour(content, tokenized))
    rows = [(name, str(len(content)), str(tokenized.token_count)) for name, content, tokenized in counted]
    terminal.show(terminal.table("text", ">characters", ">tokens", rows=rows))


def _colour(text: str, tokenized: Tokenization) -> Text:
    """Return the text with coloured tokens, or separated by bars without colour."""
    from rich.text import Text

    from tavernkit.cli.terminal import visible

    if tokenized.offsets is None:
        return Text(visible(text))
    shown = Text()
    end = 0
    for number, (start, stop) in enumerate(tokenized.offsets):
        if start < end:
            continue  # the remaining bytes of a character that is already shown
        shown.append("|" if number else "", style="dim")
        shown.append(visible(text[start:stop]), style=_STYLES[number % len(_STYLES)])
        end = stop
    return shown


def _texts(files: list[Path] | None, text: str | None) -> list[tuple[str, str]]:
    from tavernkit.cli.files import STDIN, read_text, shown

    if text is not None:
        return [("--text", text)]
    if files:
        for path in files:
            _refuse_binary(path)
        return [(shown(path), read_text(path)) for path in files]
    return [("stdin", read_text(Path(STDIN)))]


def _refuse_binary(path: Path) -> None:
    """Refuse a picture or an archive, whose bytes are not text."""
    if path.is_file():
        with path.open("rb") as stream:
            if b"\0" in stream.read(_LOOKED_AT):
                hint = f"tavernkit build {path} --explain counts the prompt of a card"
                raise typer.BadParameter(f"{path} is not a text; {hint}")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("tokens")(tokens)
