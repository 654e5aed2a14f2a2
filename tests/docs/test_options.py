"""Every option of the command line, the service and the protocol layer is in the reference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

import tavernkit
from tavernkit.vibe_tavern import _options as runner_options
from tests.docs import options

SOURCE = Path(tavernkit.__file__).parent
BETWEEN_PROCESSES = {"TAVERNKIT_STUDIO_FOLDER", "TAVERNKIT_SERVER_HANDED_OVER"}
VARIABLES = sorted(
    {
        name
        for file in SOURCE.rglob("*.py")
        for name in re.findall(r'"(TAVERNKIT_[A-Z_]+[A-Z])"', file.read_text("utf-8"))
    }
    - BETWEEN_PROCESSES
)


def test_the_options_of_commands_are_current() -> None:
    assert options.COMMANDS.read_text(encoding="utf-8") == options.render_commands(), "run `make tables`"


def test_the_settings_of_the_service_are_current() -> None:
    assert options.SETTINGS.read_text(encoding="utf-8") == options.render_settings(), "run `make tables`"


def test_every_option_of_a_command_has_a_help_text() -> None:
    silent = [(path, each.name) for path, command in options.commands() for each in command.params if not each.help]
    assert not silent


def test_every_command_is_described() -> None:
    page = options.REFERENCE.with_name("command-line.md").read_text(encoding="utf-8")
    words = set(re.findall(r"[a-z-]+", " ".join(re.findall(r"^\| `tavernkit (.+?)` \|", page, re.MULTILINE))))
    assert {word for path, _ in options.commands() for word in path} <= words


@pytest.mark.parametrize("model", [model for model, _ in options.TABLES.values()])
def test_every_setting_is_described(model: type[BaseModel]) -> None:
    assert not set(model.model_fields) - set(options.field_docs(model))


def test_the_options_of_the_protocol_layer_are_current() -> None:
    assert options.SECTIONS.read_text(encoding="utf-8") == options.render_sections(), "run `make tables`"


def test_every_section_of_the_protocol_layer_has_a_table() -> None:
    assert {value for name, value in vars(runner_options).items() if name.endswith("Options")} == set(
        options.SECTION_OPTIONS
    )


@pytest.mark.parametrize("variable", VARIABLES)
def test_every_environment_variable_is_described(variable: str) -> None:
    pages = (options.REFERENCE.with_name(name).read_text(encoding="utf-8") for name in ("command-line.md", "server.md"))
    assert f"`{variable}`" in "".join(pages)
