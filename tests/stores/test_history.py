from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tavernkit._values import thaw
from tavernkit.errors import ConfigError
from tavernkit.prompt import Message
from tavernkit.stores import InMemoryChatHistory, to_message, wrap_history


@dataclass
class Row:
    role: str
    content: str


class Rows:
    """An iterable that can be read again and not be written, like a query."""

    def __iter__(self) -> Iterator[Row]:
        return iter([Row("user", "a"), Row("assistant", "b")])


def texts(history: object) -> list[str]:
    return [message.content for message in wrap_history(history)]  # type: ignore[arg-type]


def test_every_usual_source_is_wrapped() -> None:
    assert texts(None) == []
    assert texts([{"role": "user", "content": "a"}, Message("user", "b")]) == ["a", "b"]
    assert texts(Rows()) == ["a", "b"]
    assert texts(Row("user", str(n)) for n in range(2)) == ["0", "1"]
    history = InMemoryChatHistory()
    assert wrap_history(history) is history


def test_a_generator_is_read_once_and_kept() -> None:
    history = wrap_history(Row("user", str(n)) for n in range(2))
    assert len(list(history)) == len(list(history)) == 2


def test_an_iterable_is_read_live_and_cannot_be_written() -> None:
    history = wrap_history(Rows())
    assert len(history) == 2
    assert [message.content for message in history.last(1)] == ["b"]
    with pytest.raises(ConfigError, match="append"):
        history.append(Message("user", "c"))
    with pytest.raises(ConfigError, match="clear"):
        history.clear()


def test_an_iterable_that_can_be_written_is() -> None:
    class Log(Rows):
        """Not a list, and it can take a message all the same."""

        def __init__(self) -> None:
            self.rows: list[object] = []

        def __iter__(self) -> Iterator[Row]:
            return iter(self.rows)  # type: ignore[arg-type]

        def append(self, row: object) -> None:
            self.rows.append(row)

    log = Log()
    history = wrap_history(log)
    history.append({"role": "user", "content": "c"})
    assert log.rows == [Message("user", "c")]
    with pytest.raises(ConfigError, match="clear"):
        history.clear()


def test_in_memory_history_appends_and_clears() -> None:
    history = InMemoryChatHistory()
    history.append({"role": "USER", "content": 5})
    assert [(m.role, m.content) for m in history] == [("user", "5")]
    assert history.last(0) == []
    history.clear()
    assert len(history) == 0


def test_swipes_are_read_from_mappings() -> None:
    message = to_message({"role": "assistant", "content": "a", "swipes": ["a", "b"], "swipeId": 1})
    assert (message.swipes, message.swipe_id) == (("a", "b"), 1)


def test_messages_of_openai_keep_their_tool_calls_and_parts() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    asked = to_message({"role": "assistant", "content": None, "tool_calls": [call]})
    assert (asked.content, thaw(asked.metadata)) == ("", {"tool_calls": [call]})
    told = to_message({"role": "tool", "tool_call_id": "c", "content": "a door", "metadata": {"seen": True}})
    assert thaw(told.metadata) == {"tool_call_id": "c", "seen": True}
    picture = {"type": "image_url", "image_url": {"url": "https://example.com/door.png"}}
    shown = to_message({"role": "user", "content": [{"type": "text", "text": "This?"}, picture]})
    assert (shown.content, thaw(shown.attachments)) == ("This?", [picture])
    contents = [{"type": "text", "text": "Hi"}, True, 1.5, ["a", "b"]]
    assert [to_message({"role": "user", "content": each}).content for each in contents] == ["Hi", "true", "1.5", "a\nb"]


@pytest.mark.parametrize(
    "bad",
    [
        *(5, "text", {"role": "user"}, {"content": "x"}),
        *({"role": "user", "content": "x", key: "y"} for key in ("metadata", "attachments", "swipes")),
    ],
)
def test_what_is_no_message_is_refused(bad: object) -> None:
    with pytest.raises(ConfigError, match="message"):
        to_message(bad)  # type: ignore[arg-type]
