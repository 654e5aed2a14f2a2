"""The core: what importing costs, and what a step adds to a build."""

from __future__ import annotations

import subprocess
import sys

from pytest_benchmark.fixture import BenchmarkFixture

from tavernkit.prompt import Block, BuildState, Context, Pipeline, Plan, Step

State = BuildState[Context]


class Nothing(Step[State, object]):
    pass


class Assemble(Step[State, object]):
    def before(self, state: State) -> None:
        state.plan = Plan()


def test_import_time(benchmark: BenchmarkFixture) -> None:
    def run(code: str) -> None:
        subprocess.run([sys.executable, "-c", code], check=True)

    benchmark.pedantic(run, args=("import tavernkit",), rounds=10)


def test_pipeline_of_ten_steps(benchmark: BenchmarkFixture) -> None:
    steps = [(f"step{index}", Nothing()) for index in range(9)]
    pipeline: Pipeline[State] = Pipeline(*steps, Assemble())
    context = Context(warn=None)
    benchmark(lambda: pipeline.run(BuildState(context)))


def test_thousand_blocks_to_messages(benchmark: BenchmarkFixture) -> None:
    plan = Plan([Block("user", f"message {index}", id=str(index)) for index in range(1000)])
    benchmark(plan.to_messages)
