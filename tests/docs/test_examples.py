"""Every Python example in the README, the docs and the docstrings runs and says what it claims; so do the programs."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import pkgutil
import re
import runpy
import sys
from pathlib import Path

import pytest

import tavernkit
from tavernkit.server import ServerConfig, create_app
from tests.server.conftest import on_loopback

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
NOT_IMPORTED = ("__main__", "server.migrations.env")  # they run when they are imported
SERVER = "http://127.0.0.1:8080"  # where the pages say that a server runs
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def modules() -> list[str]:
    found = pkgutil.walk_packages(tavernkit.__path__, "tavernkit.")
    return [module.name for module in found if not module.name.endswith(NOT_IMPORTED)]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples of one page share their names; lines of the form `>>>` are doctests, others are executed."""
    monkeypatch.chdir(tmp_path)
    examples = FENCE.findall(page.read_text(encoding="utf-8"))
    with contextlib.ExitStack() as stack:
        if any(SERVER in code for code in examples):
            app = create_app(ServerConfig.model_validate({"data": tmp_path / "tavernkit-data"}))
            address = stack.enter_context(on_loopback(app))
            examples = [code.replace(SERVER, address) for code in examples]
        run(page, examples)


def run(page: Path, examples: list[str]) -> None:
    names: dict[str, object] = {"__name__": page.stem}
    for number, code in enumerate(examples):
        label = f"{page.name} example {number}"
        if ">>>" in code:
            test = doctest.DocTestParser().get_doctest(code, names, label, str(page), 0)
            report: list[str] = []
            runner = doctest.DocTestRunner(optionflags=OPTIONS)
            runner.run(test, out=report.append, clear_globs=False)
            names.update(test.globs)
            assert not runner.failures, "".join(report)
        else:
            exec(compile(code, label, "exec"), names)


@pytest.mark.parametrize("name", modules())
def test_docstrings(name: str) -> None:
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=OPTIONS)
    assert result.failed == 0


@pytest.mark.parametrize("program", sorted((ROOT / "examples").glob("*.py")), ids=lambda program: program.stem)
def test_program(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(program)])
    runpy.run_path(str(program), run_name="__main__")
    assert capsys.readouterr().out
