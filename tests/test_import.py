"""Importing the package is quick and pulls in nothing that is not needed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

OPTIONAL = (
    "httpx", "openai", "anthropic", "google", "mcp", "lupa", "liquid", "tokenizers", "tiktoken", "opentelemetry",
    "ray", "pyarrow", "fastapi", "sqlalchemy", "alembic", "uvicorn", "prometheus_client", "cryptography",
)  # fmt: skip
HEAVY = ("pydantic", "jinja2", "typer", "rich", "splintr", "yaml")
NOT_FOR_EVERY_BUILD = (
    "difflib",
    "tempfile",
    "splintr",
    "tavernkit.silly_tavern._templates.handlebars",
    "tavernkit._text.js_regex.guard",
)
NOT_FOR_EVERY_SERVICE = (
    "alembic",
    "tavernkit.risu_ai._builder",
    "tavernkit.risu_ai._cbs",
    "tavernkit.risu_ai._lorebook",
)

BUILDER_MODULES = 300
"""Modules of ours that a SillyTavern builder needs; there are more than three times as many."""


def loaded_by(statement: str) -> set[str]:
    """Run a statement in a new process and return the names of the modules that it loads."""
    code = f"import json, sys; before = {{*sys.modules}}; {statement}; print(json.dumps([*{{*sys.modules}} - before]))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(result.stdout))


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] == "tavernkit"}


def test_import_loads_next_to_nothing() -> None:
    loaded = loaded_by("import tavernkit")
    assert ours(loaded) == {"tavernkit", "tavernkit._lazy"}
    assert not {name.partition(".")[0] for name in loaded} & {*OPTIONAL, *HEAVY}


def test_a_builder_loads_what_it_needs() -> None:
    loaded = loaded_by("from tavernkit.silly_tavern import Builder")
    assert len(ours(loaded)) < BUILDER_MODULES
    assert not loaded & {*NOT_FOR_EVERY_BUILD}


def test_the_service_starts_without_risu_ais_engines() -> None:
    pytest.importorskip("fastapi")
    assert not loaded_by("import tavernkit.server.app") & {*NOT_FOR_EVERY_SERVICE}


@pytest.mark.parametrize(
    ("argument", "unneeded"),
    [("--version", ("typer", "rich", "logging")), ("--help", ("tavernkit.prompt", "tavernkit.cards", "httpx"))],
)
def test_questions_about_the_command_need_little(argument: str, unneeded: tuple[str, ...]) -> None:
    code = f"""
import atexit, json, sys
from tavernkit.cli import main
atexit.register(lambda: print(json.dumps(list(sys.modules)), file=sys.stderr))
sys.argv[1:] = [{argument!r}]
main()
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout
    assert not {*json.loads(result.stderr.splitlines()[-1])} & {*unneeded}


def test_every_public_name_can_be_imported() -> None:
    import tavernkit

    for name in tavernkit.__all__:
        assert getattr(tavernkit, name) is not None
    assert dir(tavernkit)


def test_names_that_are_loaded_later_are_listed() -> None:
    import tavernkit
    from tavernkit import vibe_tavern

    assert {"load", "count_tokens", *tavernkit.__all__} <= set(dir(tavernkit))
    assert set(vibe_tavern.__all__) <= set(dir(vibe_tavern))
