"""A thousand messages into every dialect."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from tavernkit.dialects import convert, registered
from tavernkit.errors import WarningLog
from tavernkit.prompt import Message


def conversation() -> list[Message]:
    messages = [Message("system", "You are a guide.")]
    for index in range(250):
        calls = [{"id": f"c{index}", "type": "function", "function": {"name": "look", "arguments": '{"q": "door"}'}}]
        messages += [
            Message("user", f"What is behind door {index}?"),
            Message("assistant", "Let me see.", metadata={"tool_calls": calls}),  # pyright: ignore[reportArgumentType]
            Message("tool", '{"ok": true, "data": {}}', metadata={"tool_call_id": f"c{index}"}),
            Message("assistant", "A long corridor, and a light at its end."),
        ]
    return messages[:1000]


@pytest.mark.parametrize("dialect", registered())
def test_convert_1000_messages(benchmark: BenchmarkFixture, dialect: str) -> None:
    messages = conversation()
    assert benchmark(lambda: convert(messages, dialect, warn=WarningLog()))


@pytest.mark.parametrize("dialect", ["anthropic", "google", "cohere"])
def test_convert_1000_messages_strictly(benchmark: BenchmarkFixture, dialect: str) -> None:
    messages = conversation()
    assert benchmark(lambda: convert(messages, dialect, strict_alternation=True, warn=WarningLog()))
