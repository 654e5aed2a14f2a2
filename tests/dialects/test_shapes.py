"""The one description of providers' messages is what everybody writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tavernkit._values import Json
from tavernkit.dialects import _shapes as shapes
from tavernkit.dialects import convert
from tavernkit.dialects._shapes import (
    camel_case,
    google_part,
    openai_part,
    snake_case,
    split_data_url,
)
from tavernkit.prompt._block import Message

ANTHROPIC_BLOCKS = {
    "text": ("text",),
    "image": ("source",),
    "document": ("source", "title"),
    "tool_use": ("id", "name", "input"),
    "tool_result": ("tool_use_id", "content", "is_error"),
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
}
"""Blocks of Anthropic's messages and their fields, besides ``type`` and ``cache_control``."""
GOOGLE_PARTS = {
    "text": (),
    "inlineData": ("mimeType", "data"),
    "fileData": ("mimeType", "fileUri"),
    "functionCall": ("name", "args"),
    "functionResponse": ("name", "response"),
}
"""Parts of Google's contents and the fields of their values; a text has none."""
GOOGLE_EXTRA_KEYS = ("thought", "thoughtSignature", "mediaResolution")
"""Other keys that a part may have besides its value."""
OPENAI_PARTS = {
    "text": (),
    "image_url": ("url", "detail"),
    "video_url": ("url",),
    "audio_url": ("url",),
    "input_audio": ("data", "format"),
    "file": ("file_id", "filename", "file_data"),
}
"""Parts of a message's content in OpenAI's shape and the fields of their values; a text has none."""

VECTORS = Path(__file__).parents[1] / "conformance" / "vectors"
PICTURE = {"type": "image", "data": "QUJD", "media_type": "image/png"}
CALL = {"id": "c1", "type": "function", "function": {"name": "roll", "arguments": '{"some_key":6}'}, "signature": "s"}
CHAT = [
    Message("system", "Be brief."),
    Message("user", "Look.", attachments=[PICTURE, {"type": "file", "url": "https://a.example/b.pdf"}]),
    Message("assistant", "I roll.", metadata={"tool_calls": [CALL], "thinking": "hm", "signature": "s"}),
    Message("tool", '{"some_key":1}', metadata={"tool_call_id": "c1"}),
]


def recorded(group: str, surface: str) -> list[Any]:
    lines = (VECTORS / group / f"{surface}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line)["expected"] for line in lines]


def bodies(value: Any, key: str) -> list[Any]:
    """Lists below a key, wherever they are."""
    if isinstance(value, dict):
        own = [value[key]] if isinstance(value.get(key), list) else []
        return [*own, *(each for item in value.values() for each in bodies(item, key))]
    return [each for item in value for each in bodies(item, key)] if isinstance(value, list) else []


def assert_anthropic(turns: list[Any]) -> None:
    for turn in turns:
        for block in turn["content"] if isinstance(turn["content"], list) else ():
            if block["type"] in OPENAI_PARTS and block["type"] not in ANTHROPIC_BLOCKS:
                continue  # SillyTavern passes on what Claude has no form for
            assert set(block) - {"type", "cache_control"} <= set(ANTHROPIC_BLOCKS[block["type"]])


def assert_google(parts: list[Any]) -> None:
    for part in parts:
        [kind] = [name for name in part if name not in GOOGLE_EXTRA_KEYS]
        value = part[kind]
        assert set(value) <= set(GOOGLE_PARTS[kind]) if isinstance(value, dict) else kind == "text"


def test_dialects_write_what_is_described() -> None:
    written: Any = convert(CHAT, "anthropic", strict_alternation=True, warn=lambda _: None)
    assert_anthropic(written["messages"])
    assert {block["type"] for turn in written["messages"] for block in turn["content"]} == {
        "image", "document", "text", "thinking", "tool_use", "tool_result",
    }  # fmt: skip
    google: Any = convert(CHAT, "google", strict_alternation=True, rest_names=True, warn=lambda _: None)
    for parts in bodies(google, "parts"):
        assert_google(parts)
    # What the model and its tools wrote is their own.
    assert google["contents"][1]["parts"][1]["functionCall"]["args"] == {"some_key": 6}
    assert google["contents"][2]["parts"][0]["functionResponse"]["response"] == {"some_key": 1}


def test_what_was_recorded_from_the_programs_is_what_is_described() -> None:
    sent = [each["body"] for each in recorded("silly_tavern", "provider_requests_all") if "body" in each]
    google = [parts for body in sent if "contents" in body for parts in bodies(body["contents"], "parts")]
    assert len(google) > 50
    for parts in google:
        assert_google(parts)
    claude = [body for body in sent if "contents" not in body and isinstance(body.get("system"), list)]
    assert len(claude) > 20
    for body in claude:
        assert_anthropic(body["messages"])


def test_names_are_written_in_both_ways_and_content_stays() -> None:
    part = google_part("functionCall", {"name": "a", "args": {"myKey": 1, "my_key": 2}}) | {"thoughtSignature": "s"}
    snake = snake_case({"systemInstruction": {"parts": [part]}})
    assert snake == {
        "system_instruction": {
            "parts": [{"function_call": {"name": "a", "args": {"myKey": 1, "my_key": 2}}, "thought_signature": "s"}]
        }
    }
    assert camel_case(snake) == {"systemInstruction": {"parts": [part]}}


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("data:image/png;base64,QUJD", ("image/png", "QUJD")),
        ("data:text/plain,x", None),
        ("https://a", None),
        (3, None),
    ],
)
def test_data_urls_are_taken_apart(url: object, parts: object) -> None:
    assert split_data_url(url) == parts
    assert openai_part("text", "a") == {"type": "text", "text": "a"}


def test_each_name_of_a_field_is_rewritten_once() -> None:
    shapes._snake.cache_clear()  # pyright: ignore[reportPrivateUsage]  # counted
    turns: list[Json] = [{"role": "user", "parts": [{"inlineData": {"mimeType": "image/png"}}]} for _ in range(100)]
    written = shapes.snake_case({"contents": turns})
    assert written == {"contents": [{"role": "user", "parts": [{"inline_data": {"mime_type": "image/png"}}]}] * 100}
    assert shapes._snake.cache_info().misses == 5  # pyright: ignore[reportPrivateUsage]  # as above
