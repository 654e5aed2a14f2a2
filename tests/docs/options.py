"""The tables of options and of the top level in the reference. `python -m tests.docs.options` writes them."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

import tavernkit
from tavernkit.cli.app import finish, make_app
from tavernkit.server.config import ENV_PREFIX, Price, RouteConfig, ServerConfig, UpstreamConfig
from tavernkit.vibe_tavern import RunnerConfig
from tavernkit.vibe_tavern import _options as runner_options

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
COMMANDS = REFERENCE / "command-options.md"
SETTINGS = REFERENCE / "server-settings.md"
SECTIONS = REFERENCE / "runner_config.md"
TOP_LEVEL = REFERENCE / "tavernkit.md"

SHARED = ("build", "explain", "cache")
"""Commands that build a prompt; what they have in common is listed once."""

COMMANDS_INTRO = """\
# Options of the command line

<!-- Written by `make tables` from the commands; edit their help texts instead. -->

What `tavernkit COMMAND --help` says, on one page. [Command line](../command-line.md) says what each command is for.
Every command also takes `--help` and `--debug`.
"""

SETTINGS_INTRO = """\
# Settings of the service

<!-- Written by `make tables` from `tavernkit.server.config`; edit the docstrings there instead. -->

Settings come from a TOML file (`--config`, or `{prefix}CONFIG`), then from environment variables, then
from the command line; the last one wins. The variable of a setting is its name in capitals after `{prefix}`
(`{prefix}PORT`). Tables have none: `upstreams`, `build_limits` and `key_limits` are set in the file. An upstream's
key is read from `{prefix}UPSTREAM_NAME_API_KEY`. [The service](../server.md#settings) has examples.
"""

TOP_LEVEL_INTRO = """\
# The top level

<!-- Written by `make tables` from the docstrings; edit those instead. -->

What `import tavernkit as tk` offers. Everything else is in the packages.

| name | |
|---|---|
"""

TABLES: Mapping[str, tuple[type[BaseModel], str]] = {
    "Service": (ServerConfig, "The top level of the file."),
    "Upstreams": (UpstreamConfig, "`[upstreams.NAME]`: a model server."),
    "Routes": (RouteConfig, "`route` of an upstream that routes to several: a list of these."),
    "Prices": (Price, '`[upstreams.NAME.prices."MODEL"]`: what a million tokens cost.'),
}


def commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that can be called, with the words that call it."""
    if command is None:
        command = typer.main.get_command(make_app())
        finish(command)
    if not hasattr(command, "commands"):
        yield path, command
        return
    for name, inner in command.commands.items():
        yield from commands(inner, (*path, name))


def render_commands() -> str:
    found = {" ".join(path): [_option(each) for each in command.params] for path, command in commands()}
    shared = [row for row in found[SHARED[0]] if all(row in found[name] for name in SHARED)]
    names = " and ".join((", ".join(f"`{name}`" for name in SHARED[:-1]), f"`{SHARED[-1]}`"))
    lines = [COMMANDS_INTRO, "## What to build", "", f"{names} share these.", "", *_table("option", shared)]
    for name, rows in found.items():
        own = [row for row in rows if row not in shared] if name in SHARED else rows
        lines += ["", f"## `tavernkit {name}`", ""]
        lines += ["Takes the options of [What to build](#what-to-build), and:", ""] if name in SHARED else []
        lines += _table("option", own) if own else ["No options."]
    return "\n".join(lines) + "\n"


def _option(parameter: Any) -> tuple[str, str, str]:
    flags = [*parameter.opts, *parameter.secondary_opts]
    if parameter.param_type_name == "argument":
        shown = f"`{(parameter.metavar or parameter.name).upper()}`"
    else:
        shown = ", ".join(f"`{flag}`" for flag in sorted(flags, key=len, reverse=True))
        if parameter.metavar:
            shown += " " + " or ".join(f"`{each}`" for each in parameter.metavar.strip("<>").split("|"))
    return shown, _default(parameter.default), parameter.help or ""


def render_settings() -> str:
    lines = [SETTINGS_INTRO.replace("{prefix}", ENV_PREFIX)]
    for title, (model, about) in TABLES.items():
        texts = field_docs(model)
        rows = [
            (f"`{name}`", "required" if field.is_required() else _default(_value(field)), texts.get(name, ""))
            for name, field in model.model_fields.items()
        ]
        lines += [f"## {title}", "", about, "", *_table("setting", rows), ""]
    return "\n".join(lines)


def render_sections() -> str:
    """Return the page about the protocol layer with new tables, one for each section, in the order of the page."""
    text = SECTIONS.read_text(encoding="utf-8")
    tables = iter(_section_tables())
    text = re.sub(r"^\| option \|.*\n(\|.*\n)*", lambda _: "\n".join(next(tables)) + "\n", text, flags=re.MULTILINE)
    assert not list(tables), "the page lacks a table"
    return text


SECTION_OPTIONS = (
    runner_options.ToolCallingOptions,
    runner_options.DirectivesOptions,
    runner_options.LanguagePolicyOptions,
    runner_options.OutputTagsOptions,
    runner_options.TagRuleOptions,
    runner_options.EscapeHatchOptions,
    runner_options.TokenEstimationOptions,
    runner_options.ToggleOptions,
)


def _section_tables() -> Iterator[list[str]]:
    config = RunnerConfig.build(provider="openai", model="my-model", presets="none")
    for options in SECTION_OPTIONS:
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", options.__name__).lower().removesuffix("_options")
        values = getattr(config, name, None)
        texts = field_docs(options)
        rows = [
            (f"`{key}`", _python(getattr(values, key, None)), texts.get(key, "")) for key in options.__annotations__
        ]
        yield _table("option", rows)


def _python(value: object) -> str:
    """Return a default as it is written in Python; an empty one as nothing."""
    if isinstance(value, tuple):
        return ", ".join(f"`{each!r}`" for each in value).replace("'", '"')  # pyright: ignore[reportUnknownVariableType]  # of text only
    if value is None or isinstance(value, Mapping) or is_dataclass(value):
        return ""
    return f"`{value!r}`".replace("'", '"')


def render_top_level() -> str:
    """List the names of the top level, with the first sentence of each and a link to the rest."""
    places: dict[str, str] = {}
    for page in sorted(REFERENCE.glob("*.md")):
        for name in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
            places[name] = f"{page.name}#{name}"
    rows = [
        f"| [`{name}`]({_place(name, places)}) | {_summary(getattr(tavernkit, name))} |"
        for name in sorted(tavernkit.__all__, key=str.lower)
    ]
    return TOP_LEVEL_INTRO + "\n".join(rows) + "\n"


def _place(name: str, places: Mapping[str, str]) -> str:
    package = getattr(tavernkit, name).__module__.split(".")[1]
    if package == "errors":  # a whole module on one page
        return f"{places['tavernkit.errors'].partition('#')[0]}#tavernkit.errors.{name}"
    return places[f"tavernkit.{package}.{name}"]


def _summary(value: object) -> str:
    paragraph = (inspect.getdoc(value) or "").partition("\n\n")[0]
    return _cell(re.split(r"(?<=[.])\s(?=[A-Z`])", " ".join(paragraph.split()))[0])


def field_docs(owner: type) -> dict[str, str]:
    """What stands below each field of a class."""
    body = _classes(owner.__module__)[owner.__qualname__]
    found: dict[str, str] = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            text = ast.literal_eval(below.value)
            found[field.target.id] = " ".join(inspect.cleandoc(text).split())
    return found


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _value(field: FieldInfo) -> object:
    return None if field.default_factory is not None else field.default


def _default(value: object) -> str:
    if value is None or value is False or value in ("", (), []) or callable(value) or isinstance(value, SecretStr):
        return ""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, tuple):
        return ", ".join(f"`{each}`" for each in value)  # pyright: ignore[reportUnknownVariableType]  # of text only
    return f"`{str(value).lower() if value is True else value}`"


def _table(kind: str, rows: list[tuple[str, str, str]]) -> list[str]:
    lines = [f"| {kind} | default | what it does |", "|---|---|---|"]
    return lines + ["| " + " | ".join(_cell(each) for each in row) + " |" for row in rows]


def _cell(text: str) -> str:
    return " ".join(text.replace("``", "`").split()).replace("|", "\\|")


if __name__ == "__main__":
    COMMANDS.write_text(render_commands(), encoding="utf-8")
    SETTINGS.write_text(render_settings(), encoding="utf-8")
    SECTIONS.write_text(render_sections(), encoding="utf-8")
    TOP_LEVEL.write_text(render_top_level(), encoding="utf-8")
