"""Runs an evaluation with the batch engine: records by key, resumable, within a budget."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tavernkit._values import JsonObject, is_object, thaw_object
from tavernkit.batching._engine import BatchProgress, Run
from tavernkit.batching._executors import Built, Results
from tavernkit.batching._generation import concurrently
from tavernkit.batching._grid import EVERYTHING, Selection
from tavernkit.batching._output import OutputFolder
from tavernkit.batching._tasks import SCHEMA_VERSION, FileRef, digest, task_key
from tavernkit.errors import ConfigError
from tavernkit.models import Model
from tavernkit.models.errors import BudgetReachedError
from tavernkit.vibe_tavern._evals.harness import EvalCell, EvalOptions, ModelFactory, matrix, run_cell, runners_of
from tavernkit.vibe_tavern._evals.report import EvalReport, RunRecord
from tavernkit.vibe_tavern._prompt_runner import PromptRunner


class EvalTask(NamedTuple):
    """One run of an evaluation."""

    key: str
    cell: EvalCell


class EvalTasks:
    """The matrix of an evaluation, as tasks for the batch engine."""

    def __init__(self, options: EvalOptions) -> None:
        self.cells = tuple(matrix(options))
        self.duplicates = 0
        self.files: Mapping[str, FileRef] = {}

    def __len__(self) -> int:
        return len(self.cells)

    def tasks(
        self, selection: Selection = EVERYTHING, *, salt: Mapping[str, object] | None = None
    ) -> Iterator[EvalTask]:
        """Go through the runs in the order of the matrix.

        Args:
            selection: The part to return.
            salt: What else distinguishes runs, such as the options of requests.
        """
        salted = digest(thaw_object(salt or {}))
        return selection.of(EvalTask(task_key(salted, [digest(cell.config())]), cell) for cell in self.cells)

    def describe(self) -> JsonObject:
        """Return what the manifest says about the evaluation."""
        return {"runs": len(self.cells)}


def evaluate(
    options: EvalOptions,
    model: Model | ModelFactory,
    *,
    out: Path | None = None,
    resume: bool = False,
    progress: Callable[[BatchProgress], object] | None = None,
) -> EvalReport:
    """Evaluate models, ``options.jobs`` runs at a time, and write every run to a folder when it ends.

    The folder has the format of a batch: parts with a record for each run, and a manifest. Runs that the model did not
    answer have no record; resuming makes them again.

    Args:
        options: What to run.
        model: The model, or a function that makes one for each model of the matrix.
        out: The folder; without one nothing is kept.
        resume: Continue with the runs in the folder.
        progress: Called after each run.

    Raises:
        ConfigError: The options select nothing to run, or the folder has runs and ``resume`` is not set.
    """
    if out is None:
        with TemporaryDirectory() as folder:
            return evaluate(options, model, out=Path(folder), progress=progress)
    source = EvalTasks(options)
    if not source.cells:
        raise ConfigError("nothing to evaluate: the filters leave no run", code="EMPTY_EVAL_MATRIX")
    salt: JsonObject = {
        "llm_options": thaw_object(options.llm_options),
        "tool_calling": thaw_object(options.tool_calling),
        "dialect": options.dialect,
    }
    output = OutputFolder(out, "jsonl")
    run = Run(
        source=source,
        output=output,
        selection=EVERYTHING,
        resume=resume,
        form="jsonl",
        salt=salt,
        progress=progress,
    )
    unanswered: dict[str, RunRecord] = {}
    result = run.execute(partial(_runs, options, model, source.cells, unanswered), options.jobs, largest=1)
    records = {**_records(output), **unanswered}
    made = tuple(records[task.key] for task in source.tasks(salt=salt) if task.key in records)
    return EvalReport(made, missing=len(source) - len(made) if result.status == "budget" else 0)


def _runs(
    options: EvalOptions,
    model: Model | ModelFactory,
    cells: Sequence[EvalCell],
    unanswered: dict[str, RunRecord],
    chunks: Iterator[Sequence[EvalTask]],
) -> Results:
    runners: dict[tuple[str, str], PromptRunner] = {}

    async def work(task: EvalTask) -> Built:
        if not runners:  # models belong to the event loop that uses them
            runners.update(runners_of(cells, model, time.monotonic))
        try:
            record = await run_cell(task.cell, runners[task.cell.model.key], options, time.monotonic)
        except BudgetReachedError:
            return Built(None, None, out_of_budget=True)
        if not record.answered:
            unanswered[task.key] = record
            return Built(None, None, unanswered=record.error or "the model did not answer")
        line = json.dumps({"key": task.key, "schema": SCHEMA_VERSION, **record.to_dict()}, separators=(",", ":"))
        return Built(None, None, line.encode() + b"\n", failed=not record.ok)

    async def close() -> None:
        if not isinstance(model, Model):  # close what was created here
            for runner in runners.values():
                await runner.aclose()

    return concurrently(work, chunks, options.jobs, close=close)


def _records(output: OutputFolder) -> dict[str, RunRecord]:
    found: dict[str, RunRecord] = {}
    for part in output.parts():
        with part.open(encoding="utf-8") as stream:
            for line in stream:
                value: object = json.loads(line)
                assert is_object(value)
                found[str(value["key"])] = RunRecord.from_dict(value)
    return found
