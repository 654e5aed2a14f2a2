"""Replies and streams of text backends, in the form of each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tavernkit.errors import ConfigError
from tavernkit.silly_tavern.providers import TEXT_BACKENDS, TextPiece, read_text_event, read_text_reply
from tavernkit.silly_tavern.providers.text.replies import READERS
from tavernkit.values import Json

OPENAI_LIKE = [backend for backend in TEXT_BACKENDS if backend not in READERS]

REPLIES: list[tuple[str, Json, TextPiece]] = [
    (
        "ooba",
        {
            "choices": [{"index": 0, "text": "Hi", "finish_reason": "length"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
        },
        TextPiece(text="Hi", finish_reason="length", prompt_tokens=3, completion_tokens=1),
    ),
    (
        "openrouter",
        {"choices": [{"message": {"content": "Hi", "reasoning": "hm"}, "finish_reason": "eos"}]},
        TextPiece(text="Hi", reasoning="hm", finish_reason="stop"),
    ),
    ("vllm", {"choices": [{"text": "", "finish_reason": "stop"}]}, TextPiece(finish_reason="stop")),
    ("tabby", {"choices": [{"text": "Hi"}]}, TextPiece(text="Hi", finish_reason="unknown")),
    (
        "llamacpp",
        {"content": "Hi", "stop": True, "stop_type": "limit", "tokens_evaluated": 5, "tokens_predicted": 2},
        TextPiece(text="Hi", finish_reason="length", prompt_tokens=5, completion_tokens=2),
    ),
    ("llamacpp", {"content": "Hi", "stop": True, "stopped_eos": True}, TextPiece(text="Hi", finish_reason="stop")),
    ("llamacpp", {"content": "Hi", "stop": True, "stopped_limit": True}, TextPiece(text="Hi", finish_reason="length")),
    (
        "ollama",
        {
            "response": "Hi",
            "thinking": "hm",
            "done": True,
            "done_reason": "stop",
            "prompt_eval_count": 5,
            "eval_count": 2,
        },
        TextPiece(text="Hi", reasoning="hm", finish_reason="stop", prompt_tokens=5, completion_tokens=2),
    ),
    ("kobold", {"results": [{"text": "Hi"}]}, TextPiece(text="Hi", finish_reason="unknown")),
    (
        "kobold",
        {"results": [{"text": "Hi", "finish_reason": "length", "prompt_tokens": 5, "completion_tokens": 2}]},
        TextPiece(text="Hi", finish_reason="length", prompt_tokens=5, completion_tokens=2),
    ),
    ("novelai", {"output": "Hi"}, TextPiece(text="Hi", finish_reason="unknown")),
]


@pytest.mark.parametrize(("backend", "body", "piece"), REPLIES)
def test_a_whole_reply(backend: str, body: Json, piece: TextPiece) -> None:
    assert read_text_reply(backend, body) == piece


EVENTS: list[tuple[str, Json, TextPiece]] = [
    ("koboldcpp", {"choices": [{"text": "Hi", "finish_reason": None}]}, TextPiece(text="Hi")),
    ("koboldcpp", {"choices": [{"text": "", "finish_reason": "stop"}]}, TextPiece(finish_reason="stop")),
    (
        "vllm",
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}},
        TextPiece(prompt_tokens=3, completion_tokens=1),
    ),
    ("openrouter", {"choices": [{"delta": {"content": "", "reasoning": "hm"}}]}, TextPiece(reasoning="hm")),
    ("llamacpp", {"content": "Hi", "stop": False}, TextPiece(text="Hi")),
    ("ollama", {"response": "Hi", "done": False}, TextPiece(text="Hi")),
    ("ollama", {"response": "", "done": True}, TextPiece(finish_reason="stop")),
    ("kobold", {"token": "Hi", "finish_reason": None}, TextPiece(text="Hi")),
    ("kobold", {"token": "", "finish_reason": "length"}, TextPiece(finish_reason="length")),
    ("novelai", {"token": "Hi", "ptr": 0, "final": False}, TextPiece(text="Hi")),
    ("novelai", {"token": ".", "ptr": 1, "final": True}, TextPiece(text=".", finish_reason="unknown")),
]


@pytest.mark.parametrize(("backend", "event", "piece"), EVENTS)
def test_an_event_of_a_stream(backend: str, event: Json, piece: TextPiece) -> None:
    assert read_text_event(backend, event) == piece


@pytest.mark.parametrize("backend", TEXT_BACKENDS)
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "out of memory", "code": 500}}, "out of memory"),
        ({"error": {"code": 500}}, '{"code":500}'),
        ({"error": "model 'x' not found"}, "model 'x' not found"),
        ({"detail": {"msg": "Server is busy", "type": "service_unavailable"}}, "Server is busy"),
        ({"detail": "Not Found"}, "Not Found"),
        ({"object": "error", "message": "too long", "code": 400}, "too long"),
        ({"statusCode": 402, "message": "no subscription"}, "no subscription"),
    ],
)
def test_errors_inside_a_good_answer_are_errors(backend: str, body: Json, message: str) -> None:
    assert read_text_reply(backend, body) == TextPiece(error=f"{backend}: {message}")
    assert read_text_event(backend, body) == TextPiece(error=f"{backend}: {message}")


@pytest.mark.parametrize("backend", TEXT_BACKENDS)
@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": [{"text": None}]}, {"results": []}, [], None, "Hi"])
def test_a_reply_without_text_is_an_error(backend: str, body: Json) -> None:
    piece = read_text_reply(backend, body)
    assert piece.error.startswith(f"{backend}: no")
    assert not piece.text


def test_errors_are_shown_shortened() -> None:
    assert len(read_text_reply("ooba", {"a": "x" * 999}).error) < 300


def test_unknown_backends_are_named() -> None:
    with pytest.raises(ConfigError, match="unknown text backend 'horde'"):
        read_text_reply("horde", {})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(
        {"choices", "text", "delta", "message", "content", "usage", "error", "detail", "results", "token", "stop"}
    )), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(st.sampled_from(TEXT_BACKENDS), JSON)
def test_no_answer_breaks_a_reader(backend: str, body: Json) -> None:
    assert isinstance(read_text_event(backend, body), TextPiece)
    whole = read_text_reply(backend, body)
    assert whole.error or whole.finish_reason
