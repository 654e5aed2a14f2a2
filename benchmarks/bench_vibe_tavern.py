"""What running prompts adds to the time a model takes: requests, tool rounds, reading answers, streams."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks import workloads
from tavernkit.models._streams import SSEParser
from tavernkit.stores._variables import InMemoryVariablesStore
from tavernkit.testing import ScriptedModel, answer, calls, tool_call
from tavernkit.vibe_tavern import PromptRunner, RunnerConfig, ToolLoopRunner
from tavernkit.vibe_tavern._directives.envelope import parse_json, validate
from tavernkit.vibe_tavern._liquid_macros.render import render_liquid
from tavernkit.vibe_tavern._output_tags import OutputTagsConfig, transform
from tavernkit.vibe_tavern._tool_calling.final_stream import OutputTagsStream

CONFIG = RunnerConfig.build(provider="openai", model="gpt-test", context={"warn": None})
TAGS = OutputTagsConfig.from_mapping(
    {
        "enabled": True,
        "rules": [{"tag": "think", "action": "drop"}, {"tag": "b", "action": "strip"}],
        "sanitizers": {"lang_spans": {"enabled": True}},
    }
)


def words(count: int, seed: int = 3) -> str:
    rng = random.Random(seed)
    return " ".join(rng.choice(workloads.WORDS) for _ in range(count))


def history(count: int) -> list[dict[str, str]]:
    return [{"role": "assistant" if index % 2 else "user", "content": words(40, seed=index)} for index in range(count)]


@pytest.mark.parametrize("size", [10, 1000])
def test_build_request(benchmark: BenchmarkFixture, size: int) -> None:
    chat = history(size)
    runner = PromptRunner(ScriptedModel())
    request = benchmark(lambda: runner.build_request(CONFIG, history=chat, message="And then?", system="Be brief."))
    assert len(request.messages) == size + 2


def test_build_request_within_a_budget(benchmark: BenchmarkFixture) -> None:
    chat = history(200)
    config = RunnerConfig.build(
        provider="openai", model="gpt-test", capabilities_overrides={"context_window_tokens": 100_000}
    )
    runner = PromptRunner(ScriptedModel())
    request = benchmark(lambda: runner.build_request(config, history=chat, message="And then?"))
    assert len(request.messages) == 201


def test_ten_tool_rounds(benchmark: BenchmarkFixture) -> None:
    tools = [{"name": "look", "description": "d", "parameters": {"type": "object"}}]

    async def execute(name: str, args: dict[str, Any]) -> object:
        return {"seen": args}

    def run() -> str:
        script = [*(calls(tool_call("look", {"n": number})) for number in range(10)), answer("Done.")]
        loop = ToolLoopRunner(PromptRunner(ScriptedModel(*script)), CONFIG, tools=tools, executor=execute)
        return asyncio.run(loop.run("Look around.")).text

    assert benchmark(run) == "Done."


def test_read_a_large_envelope(benchmark: BenchmarkFixture) -> None:
    directives = [{"type": "ui_toast", "payload": {"message": words(20, seed=index)}} for index in range(500)]
    text = "Here:\n```json\n" + json.dumps({"assistant_text": words(200), "directives": directives}) + "\n```"

    def read() -> Any:
        return validate(parse_json(text).value, allowed_types=["ui.toast"]).value

    assert len(benchmark(read)["directives"]) == 500


def test_output_tags_of_a_long_answer(benchmark: BenchmarkFixture) -> None:
    text = " ".join(f"{words(20, seed=index)} <b>x</b> <think>y</think> `<b>`" for index in range(200))
    assert "<think>" not in benchmark(lambda: transform(text, TAGS).text)


def test_output_tags_of_a_stream(benchmark: BenchmarkFixture) -> None:
    deltas = [f"{word} " for word in words(2000).split()]

    def stream() -> str:
        filtered = OutputTagsStream(TAGS)
        return "".join(filtered.feed(delta) for delta in deltas) + filtered.finish()

    assert benchmark(stream) == "".join(deltas)


def test_render_a_cached_template(benchmark: BenchmarkFixture) -> None:
    template = "{{ char }} feels {{ var.mood }}. {% if var.n > 3 %}Enough.{% else %}More.{% endif %}{% incvar n %}"
    store = InMemoryVariablesStore({"local": {"mood": "glad", "n": 0}})
    text = benchmark(lambda: render_liquid(template, assigns={"char": "Sera"}, variables=store))
    assert text.startswith("Sera feels glad.")


def test_read_a_stream_of_10000_events(benchmark: BenchmarkFixture) -> None:
    event = {"choices": [{"delta": {"content": "word "}, "finish_reason": None}]}
    data = f"data: {json.dumps(event)}\n\n".encode() * 10_000
    portions = [data[start : start + 4096] for start in range(0, len(data), 4096)]

    def read() -> int:
        parser = SSEParser()
        return sum(len(parser.feed(portion)) for portion in portions) + len(parser.finish())

    assert benchmark(read) == 10_000
