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
    "tavernkit.silly_tavern._context_template.handlebars",
    "tavernkit._text.js_regex.guard",
)
NOT_FOR_EVERY_SERVICE = (
    "alembic",
    "tavernkit.risu_ai._builder",
    "tavernkit.risu_ai._cbs",
    "tavernkit.risu_ai._lorebook",
)

PROBE = """
import json, sys, time
before = time.perf_counter()
import tavernkit
elapsed = time.perf_counter() - before
print(json.dumps({"elapsed": elapsed, "modules": sorted({name.split(".")[0] for name in sys.modules})}))
"""


def probe() -> dict[str, object]:
    result = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    return json.loads(result.stdout)


def test_import_pulls_in_nothing_optional_or_heavy() -> None:
    loaded = set(probe()["modules"])  # type: ignore[call-overload]
    assert not loaded & {*OPTIONAL, *HEAVY}


def test_import_takes_under_150_ms() -> None:
    best = min(float(probe()["elapsed"]) for _ in range(5))  # type: ignore[arg-type]
    assert best < 0.150


def test_a_builder_waits_with_what_not_every_build_needs() -> None:
    probe = "import json, sys; from tavernkit.silly_tavern import Builder; print(json.dumps(list(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert not set(json.loads(result.stdout)) & {*NOT_FOR_EVERY_BUILD}


def test_the_service_starts_without_risu_ais_engines() -> None:
    pytest.importorskip("fastapi")
    probe = "import json, sys, tavernkit.server.app; print(json.dumps(list(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert not set(json.loads(result.stdout)) & {*NOT_FOR_EVERY_SERVICE}


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
