"""Every option of the command line, the service and the protocol layer is in the reference."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import BaseModel

from tavernkit.vibe_tavern import _section_options as section_options
from tests.docs import options

SECTIONS = [
    value
    for name, value in vars(section_options).items()
    if name.endswith("Options") and value.__module__ == section_options.__name__
]


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


@pytest.mark.parametrize("section", SECTIONS)
def test_every_option_of_the_protocol_layer_is_described(section: Any) -> None:
    page = (options.REFERENCE / "runner_config.md").read_text(encoding="utf-8")
    described = set(re.findall(r"[`\"](\w+)[`\"]", page))
    assert not set(section.__annotations__) - described
