"""What must hold for any conversation; run briefly by the tests and for long by ``make fuzz``."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from tavernkit.dialects import convert, registered
from tavernkit.errors import WarningLog
from tavernkit.prompt import Message

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
ids = st.sampled_from(["a", "b", "", "c"])
calls = st.fixed_dictionaries(
    {"id": ids},
    optional={
        "function": st.fixed_dictionaries(
            {"name": st.sampled_from(["look", "wait"])},
            optional={"arguments": st.sampled_from(["{}", '{"q": 1}', "[", "", None]) | json_values},
        ),
        "signature": st.text(max_size=4),
    },
)
metadata = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "tool_calls": st.lists(calls, max_size=3) | json_values,
        "tool_call_id": ids | json_values,
        "signature": st.text(max_size=4),
        "thinking": st.text(max_size=4) | st.just([{"type": "thinking", "thinking": "hm", "signature": "s"}]),
        "cache_control": st.just({"type": "ephemeral"}),
    },
)
attachments = st.none() | st.lists(
    json_values
    | st.fixed_dictionaries(
        {"type": st.sampled_from(["image", "file", "audio", "image_url", "document", "input_audio"])},
        optional={"url": st.text(max_size=8), "data": st.just("eA=="), "image_url": json_values, "source": json_values},
    ),
    max_size=2,
)
messages = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "tool", "tool", "function", "developer"]),
    content=st.sampled_from(["", " ", "hi", "bye \n", '{"ok": false}', '{"n": 1}']),
    name=st.none() | st.just("Ann"),
    metadata=metadata,
    attachments=attachments,
)
conversations = st.lists(messages, max_size=8)
dialects = st.sampled_from(registered())


def check_payloads_are_plain_json(conversation: list[Message], dialect: str, strict: bool, media: bool) -> None:
    options = {"strict_alternation": strict, "attachments": media, "warn": WarningLog()}
    payload = convert(conversation, dialect, **options)
    assert json.loads(json.dumps(payload)) == payload
    assert payload == convert(conversation, dialect, **options)


def check_nothing_is_lost_by_default(conversation: list[Message]) -> None:
    payload = convert(conversation, "openai", warn=WarningLog())
    assert [(entry["role"], entry["content"]) for entry in payload] == [(m.role, m.content) for m in conversation]


def check_anthropic_accepts_the_strict_form(conversation: list[Message]) -> None:
    turns: Any = convert(conversation, "anthropic", strict_alternation=True, warn=WarningLog())["messages"]
    assert [turn["role"] for turn in turns] == (["user", "assistant"] * len(turns))[: len(turns)]
    asked: list[str] = []
    for turn in turns:
        assert turn["content"]
        kinds = [block["type"] for block in turn["content"]]
        results = [block["tool_use_id"] for block in turn["content"] if block["type"] == "tool_result"]
        assert sorted(results) == sorted(asked)
        assert kinds[: len(results)] == ["tool_result"] * len(results)
        assert all(block["text"].strip() for block in turn["content"] if block["type"] == "text")
        uses = [block for block in turn["content"] if block["type"] == "tool_use"]
        assert all(isinstance(block["input"], dict) for block in uses)
        asked = [block["id"] for block in uses]
    assert asked == []
    last = turns[-1]
    if last["role"] == "assistant" and last["content"][-1]["type"] == "text":
        assert last["content"][-1]["text"] == last["content"][-1]["text"].rstrip()


def check_google_accepts_the_strict_form(conversation: list[Message]) -> None:
    turns: Any = convert(conversation, "google", strict_alternation=True, warn=WarningLog())["contents"]
    assert [turn["role"] for turn in turns] == (["user", "model"] * len(turns))[: len(turns)]
    asked: list[str] = []
    for turn in turns:
        assert turn["parts"]
        parts = turn["parts"]
        assert [part["function_response"]["name"] for part in parts if "function_response" in part] == asked
        assert all(part["text"] for part in parts if "text" in part)
        asked = [part["function_call"]["name"] for part in parts if "function_call" in part]
    assert asked == []
