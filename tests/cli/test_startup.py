"""What a command does before it begins: as little as it can."""

from __future__ import annotations

import pytest
from typer.main import get_command

from tavernkit.cli import app
from tavernkit.cli.app import COMMANDS, make_app, run


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
