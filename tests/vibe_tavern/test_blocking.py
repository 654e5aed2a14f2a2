"""The synchronous façade."""

from __future__ import annotations

import threading

import pytest

from tavernkit.errors import ConfigError
from tavernkit.models import Endpoint, OpenAIModel, RequestTimeoutError
from tavernkit.testing import Hang, ScriptedModel, calls, serve_in_thread, streamed, tool_call, usage
from tavernkit.vibe_tavern import BlockingRunner, FunctionToolset, PromptRunner, ToolLoopRunner
from tests.vibe_tavern.support import config


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name == "tavernkit-runner"}


def test_requests_streams_and_loops_without_an_event_loop() -> None:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    model = ScriptedModel(
        "one",
        streamed("t", "wo"),
        streamed("th", "ree", usage=usage(1, 2)),
        calls(tool_call("add", {"a": 2, "b": 2})),
        "four",
    )
    with serve_in_thread(model) as url:
        transport = OpenAIModel("", Endpoint(base_url=url))
        with BlockingRunner(PromptRunner(transport)) as blocking:
            request = blocking.runner.build_request(config(), message="hi")
            assert blocking.perform(request).text == "one"
            deltas: list[str] = []
            assert blocking.perform_stream(request, on_delta=deltas.append).text == "two"
            assert deltas == ["t", "wo"]
            with blocking.stream(request) as stream:
                assert [chunk.text for chunk in stream if chunk.text] == ["th", "ree"]
            assert stream.result.usage == usage(1, 2)
            loop = ToolLoopRunner(blocking.runner, config(), tools=FunctionToolset([add]))
            assert blocking.run(loop.run("2 + 2?")).text == "four"
    assert threads() == set()


def test_leaving_a_stream_early_ends_the_request() -> None:
    with serve_in_thread(ScriptedModel(Hang(after=["a"]))) as url:
        transport = OpenAIModel("", Endpoint(base_url=url))
        runner = PromptRunner(transport)
        request = runner.build_request(config(), message="hi")
        with BlockingRunner(runner) as blocking, blocking.stream(request) as stream:
            assert next(chunk.text for chunk in stream if chunk.text) == "a"
    assert threads() == set()


def test_errors_come_through() -> None:
    with serve_in_thread(ScriptedModel(Hang())) as url:
        transport = OpenAIModel("", Endpoint(base_url=url, read_timeout=0.3))
        with BlockingRunner(PromptRunner(transport)) as blocking:
            request = blocking.runner.build_request(config(), message="hi")
            with pytest.raises(RequestTimeoutError):
                blocking.perform(request)


def test_closing_ends_what_still_runs_and_happens_once() -> None:
    started = threading.Event()

    def hang(_: object) -> Hang:
        started.set()
        return Hang()

    model = ScriptedModel(hang)
    blocking = BlockingRunner(PromptRunner(model))
    request = blocking.runner.build_request(config(), message="hi")
    failed: list[BaseException] = []

    def wait() -> None:
        try:
            blocking.perform(request)
        except BaseException as error:
            failed.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert started.wait(5)
    blocking.close()
    blocking.close()
    waiting.join(5)
    assert len(failed) == 1
    with pytest.raises(ConfigError) as caught:
        blocking.perform(request)
    assert caught.value.code == "RUNNER_CLOSED"
    assert threads() == set()
