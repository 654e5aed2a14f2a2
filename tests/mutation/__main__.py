"""``python -m tests.mutation trimmer``: change the subject in one place after another, and list what nobody noticed.

Each change runs in a process of its own, forked when everything is imported: first the vectors of the subject,
beginning with those that found the changes before, then its tests. What computes far longer than unchanged counts as
noticed.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import hypothesis
import pytest

import tavernkit
from tests.conformance import runner
from tests.mutation.mutants import Mutant, mutants, source

PACKAGE = Path(tavernkit.__file__).parent
MEMORY_BYTES = 4 << 30


@dataclass(slots=True)
class TimeLimits:
    """How many seconds of computing a change may take for the vectors, and for everything."""

    vectors: float = 600
    everything: float = 600

    def learn(self, vectors: float, everything: float) -> None:
        """Take the times of the unchanged subject: what takes far longer hangs."""
        self.vectors, self.everything = 3 * vectors + 5, 3 * everything + 5


@dataclass(frozen=True, slots=True)
class Subject:
    """What is changed, and what ought to notice: surfaces of vectors, and test files."""

    modules: tuple[str, ...]
    surfaces: tuple[str, ...]
    tests: tuple[str, ...]


SUBJECTS = {
    "trimmer": Subject(
        ("budget/_trimmer",),
        ("core/trimmer",),
        (
            "tests/budget/test_trimmer.py",
            "tests/budget/test_max_tokens.py",
            "tests/budget/test_budget_properties.py::test_trimming_keeps_its_promises",
        ),
    ),
    "macros": Subject(
        ("silly_tavern/_macros/engine", "silly_tavern/_macros/nodes", "silly_tavern/_macros/run"),
        ("silly_tavern/macros_v2", "silly_tavern/macros_v1"),
        ("tests/silly_tavern/macros",),
    ),
    "world_info": Subject(
        ("silly_tavern/_world_info/scan", "silly_tavern/_world_info/candidates"),
        ("silly_tavern/world_info", "silly_tavern/world_info_timed"),
        ("tests/silly_tavern/world_info",),
    ),
    "lorebook": Subject(
        ("risu_ai/_lorebook/engine", "risu_ai/_lorebook/activation", "risu_ai/_lorebook/keys"),
        ("risu_ai/lorebook",),
        ("tests/risu_ai/lorebook",),
    ),
    "regex_scripts": Subject(
        ("risu_ai/_regex_scripts/runner", "risu_ai/_regex_scripts/script"),
        ("risu_ai/regex_scripts",),
        ("tests/risu_ai/regex_scripts",),
    ),
    "triggers": Subject(
        ("risu_ai/_triggers/run", "risu_ai/_triggers/conditions", "risu_ai/_triggers/effects/flow"),
        ("risu_ai/triggers_v1", "risu_ai/triggers_v2", "risu_ai/commands"),
        (
            "tests/risu_ai/triggers/test_comparisons.py",
            "tests/risu_ai/triggers/test_control_flow.py",
            "tests/risu_ai/triggers/test_effects.py",
            "tests/risu_ai/triggers/test_limits.py",
            "tests/risu_ai/triggers/test_runs.py",
        ),
    ),
}


class Substitute(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives `code` to whoever imports the module at `path`."""

    def __init__(self, path: Path, code: CodeType) -> None:
        self.path, self.code = path, code

    def find_spec(
        self, fullname: str, path: object = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != module_name(self.path):
            return None
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        exec(self.code, module.__dict__)


def main() -> int:
    """Run one subject and print what survived."""
    options = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    options.add_argument("subject", choices=SUBJECTS)
    options.add_argument(
        "--only", default="", metavar="TEXT", help="only changes whose place and description hold TEXT"
    )
    options.add_argument(
        "--sample", type=float, default=1.0, metavar="SHARE", help="a part of the changes, such as 0.2"
    )
    given = options.parse_args()
    subject = SUBJECTS[given.subject]
    # A busy machine must not count as a test that noticed.
    checks = tuple(hypothesis.HealthCheck)
    hypothesis.settings.register_profile(
        "mutation", derandomize=True, database=None, deadline=None, suppress_health_check=checks
    )
    chosen = random.Random(7)
    todo: list[tuple[Path, ast.Module, Mutant]] = []
    for module in subject.modules:
        path = PACKAGE / f"{module}.py"
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found = ((path, tree, mutant) for mutant in mutants(tree) if given.only in place(path, mutant))
        todo += [each for each in found if chosen.random() < given.sample]
    known = runner.known_differences()
    cases = [case for surface in subject.surfaces for case in runner.cases(surface) if case.id not in known]
    verdicts: Counter[str] = Counter()
    limits = TimeLimits()

    def judge(path: Path, tree: ast.Module, mutant: Mutant, change: Callable[[Path, CodeType], None]) -> None:
        try:
            code = compile(source(mutant, tree), path, "exec")
        except (SyntaxError, ValueError):
            return
        verdict = run(lambda: change(path, code), cases, subject.tests, limits)
        verdicts[verdict] += 1
        if verdict == "survived":
            print(verdict, place(path, mutant), flush=True)

    began = time.monotonic()
    unchanged = run(lambda: None, cases, subject.tests, limits)
    print(f"{len(todo)} changes; unchanged: {unchanged}; {limits}", flush=True)
    # Module-level code has run when everything is imported, so these changes come first, each with its own imports.
    for path, tree, mutant in todo:
        if not mutant.in_function:
            judge(path, tree, mutant, lambda path, code: sys.meta_path.insert(0, Substitute(path, code)))
    for surface in subject.surfaces:
        runner.adapter(surface)
    for module in subject.modules:
        importlib.import_module(module_name(PACKAGE / f"{module}.py"))
    functions = [each for each in gc.get_objects() if isinstance(each, FunctionType)]
    gc.freeze()
    for path, tree, mutant in todo:
        if mutant.in_function:
            judge(path, tree, mutant, partial(change_functions, functions))
    print(f"{sum(verdicts.values())} changes in {time.monotonic() - began:.0f} s: {dict(verdicts)}")
    return 0


def place(path: Path, mutant: Mutant) -> str:
    """Where a change is, and what."""
    return f"{path.relative_to(PACKAGE)}:{mutant.line}:{mutant.column} {mutant.description}"


def module_name(path: Path) -> str:
    """The dotted name of a module of ours."""
    return ".".join(("tavernkit", *path.relative_to(PACKAGE).with_suffix("").parts))


def change_functions(functions: list[FunctionType], path: Path, code: CodeType) -> None:
    """Give the functions of the module their changed code."""
    changed: dict[tuple[str, int], list[CodeType]] = {}
    pending = [code]
    while pending:
        for inner in pending.pop().co_consts:
            if isinstance(inner, CodeType):
                changed.setdefault((inner.co_qualname, inner.co_firstlineno), []).append(inner)
                pending.append(inner)
    for function in functions:
        if function.__code__.co_filename == str(path):
            codes = changed.get((function.__code__.co_qualname, function.__code__.co_firstlineno), ())
            if len(codes) == 1:
                function.__code__ = codes[0]


def run(change: Callable[[], None], cases: list[runner.Case], tests: tuple[str, ...], limits: TimeLimits) -> str:
    """Make the change in a process of its own, and say who noticed. The vector that did is asked first from then on."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, json.dumps(_verdict(change, cases, tests, limits)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as report:
        answer = report.read()
    _, status = os.waitpid(child, 0)
    if not answer:
        return "timeout" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU else "crash"
    verdict, details = json.loads(answer)
    if verdict == "vector":
        cases.insert(0, cases.pop(details))
    if verdict == "survived" and limits == TimeLimits():
        limits.learn(*details)
    return verdict


def _verdict(
    change: Callable[[], None], cases: list[runner.Case], tests: tuple[str, ...], limits: TimeLimits
) -> tuple[str, object]:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    _compute_at_most(limits.vectors)
    try:
        change()
        for index, case in enumerate(cases):
            if not runner.run(case).passed:
                return "vector", index
    except Exception:
        return "import", None
    vectors = time.process_time()
    _compute_at_most(limits.everything)
    quiet = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore::pytest.PytestAssertRewriteWarning")
    if pytest.main([*quiet, "--hypothesis-profile=mutation", *tests]) != 0:
        return "test", None
    return "survived", (vectors, time.process_time())


def _compute_at_most(seconds: float) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + seconds), resource.RLIM_INFINITY))


if __name__ == "__main__":
    sys.exit(main())
