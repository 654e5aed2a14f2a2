"""What a command does before it begins: as little as it can."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.main import get_command

from tavernkit.cli import app
from tavernkit.cli.app import COMMANDS, SUMMARIES, make_app, run
from tavernkit.cli.options import Platform, take_plain_values


@pytest.mark.parametrize("name", COMMANDS)
def test_each_module_registers_the_command_of_its_name(name: str) -> None:
    assert name in getattr(get_command(make_app((name,))), "commands", ())


def test_only_the_command_that_is_asked_for_is_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    imported: list[str] = []
    load = app.import_module
    monkeypatch.setattr(app, "import_module", lambda name: (imported.append(name), load(name))[1])
    assert run(["--debug", "macros", "--help"]) == 0
    assert imported == ["tavernkit.cli.commands.macros"]


def test_all_are_known_to_the_help_and_to_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out.split()
    assert [name for name in COMMANDS if name not in shown] == []
    assert run(["biuld"]) == 2
    assert "Did you mean 'build'?" in capsys.readouterr().err


def test_the_help_lists_what_the_commands_say_of_themselves() -> None:
    commands: dict[str, Any] = getattr(get_command(make_app()), "commands")  # noqa: B009  # of a group
    said = {name: each.help.split("\b")[0].split("\n\n")[0].strip() for name, each in commands.items()}
    assert list(said.items()) == list(SUMMARIES.items())


def test_the_help_prepares_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    imported: list[str] = []
    load = app.import_module
    monkeypatch.setattr(app, "import_module", lambda name: (imported.append(name), load(name))[1])
    assert run(["--help"]) == 0
    assert imported == []
    assert run(["server", "--help"]) == 0
    assert imported == ["tavernkit.cli.commands.server"]
    monkeypatch.setenv(app.COMPLETION_VARIABLE, "complete_bash")
    assert app._asked_for(["build"]) == COMMANDS  # pyright: ignore[reportPrivateUsage]


def test_a_build_needs_no_pydantic(tmp_path: Path) -> None:
    """Importing it, and making validators of options, took a third of a cold build's time."""
    card = tmp_path / "card.json"
    card.write_text(json.dumps({"spec": "chara_card_v2", "data": {"name": "Aria", "first_mes": "Hi"}}))
    code = (
        "import json, sys\nfrom tavernkit.cli.app import run\n"
        f"code = run(['build', {str(card)!r}, '--message', 'Hello', '--context-length', '4000', '--json'])\n"
        "print(json.dumps([code, 'pydantic' in sys.modules, len(sys.modules)]), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    code, pydantic, modules = json.loads(result.stderr.splitlines()[-1])
    assert (code, pydantic) == (0, False)
    assert modules < 700


Colour = Literal["red", "blue"]


def even(value: str) -> int:
    if int(value) % 2:
        raise ValueError(f"{value} is odd")
    return int(value)


def every_kind_of_option(
    path: Annotated[Path, typer.Argument()],
    colour: Annotated[Colour, typer.Option()] = "red",
    platforms: Annotated[list[Platform] | None, typer.Option()] = None,
    name: Annotated[str | None, typer.Option()] = None,
    names: Annotated[list[str] | None, typer.Option()] = None,
    count: Annotated[int, typer.Option(min=1, max=9)] = 3,
    share: Annotated[float | None, typer.Option(max=1)] = None,
    clamped: Annotated[int, typer.Option(max=9, clamp=True)] = 3,
    there: Annotated[Path | None, typer.Option(exists=True)] = None,
    folder: Annotated[Path | None, typer.Option(file_okay=False)] = None,
    plain: Annotated[bool, typer.Option()] = False,
    platform: Annotated[Platform | None, typer.Option()] = None,
    even: Annotated[int | None, typer.Option(parser=even)] = None,
    evens: Annotated[list[int] | None, typer.Option(parser=even)] = None,
    called: Annotated[str | None, typer.Option(callback=lambda value: f"called with {value}")] = None,
) -> None:
    """Take options."""


@pytest.mark.parametrize(
    "arguments",
    [
        "x", "", "x --name n --names a --names b", "x --colour blue", "x --colour green", "x --colour RED",
        "x --platforms risu_ai --platforms silly_tavern", "x --platforms green",
        "x --count 9", "x --count 0", "x --count 1.0",
        "x --even 4", "x --even 5", "x --evens 4 --evens 6", "x --evens 4 --evens 5",
        "x --count one", "x --count 99999999999999999999", "x --count \u0664", "x --platform risu_ai",
        "x --platform risu", "x --share 0.5", "x --share 1", "x --share 2",
        "x --share nan", "x --share -1e3", "x --clamped 12", "x --there .", "x --there missing", "x --folder .",
        "x --folder pyproject.toml", "x --plain", "x --called c", "pyproject.toml", "a\0b",
    ],
)  # fmt: skip
def test_plain_values_are_what_typer_makes_of_them(arguments: str) -> None:
    def outcome(quick: bool) -> object:
        single = typer.Typer()
        single.command()(every_kind_of_option)
        command: Any = get_command(single)
        for parameter in command.params if quick else ():
            take_plain_values(parameter)
        try:
            made = command.make_context("test", arguments.split(" ") if arguments else [])
        except Exception as error:  # compared
            return type(error), str(getattr(error, "message", error))
        return {name: (type(value), value) for name, value in made.params.items()}

    assert repr(outcome(True)) == repr(outcome(False))


def test_the_help_shows_words_instead_of_pythons_types(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diff", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "TEXT" in shown
    assert "<path>" not in shown
    assert "<bool>" not in shown
