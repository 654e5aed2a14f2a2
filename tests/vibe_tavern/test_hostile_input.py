"""Input that is made to be slow ends soon: whatever it is, its cost grows with its length."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tavernkit.vibe_tavern._directives.envelope import parse_json
from tavernkit.vibe_tavern._liquid_macros.render import render_liquid
from tavernkit.vibe_tavern._output_tags import transform
from tavernkit.vibe_tavern._tool_calling.calls import parse_arguments
from tavernkit.vibe_tavern._tool_calling.final_stream import OutputTagsStream
from tavernkit.vibe_tavern._tool_calling.transforms import content_tags_to_tool_calls
from tests.vibe_tavern.properties import TAGS, read_events

SIZE = 100_000
SECONDS = 10.0
"""Generous: what is not linear here takes minutes."""


def repeated(piece: str, size: int = SIZE) -> str:
    return piece * (size // len(piece))


def in_time(work: Callable[[], object]) -> None:
    started = time.process_time()
    work()
    assert time.process_time() - started < SECONDS


@pytest.mark.parametrize("piece", ["{", '{"', "<json>", "```", "``` ", "[[", '"\\', " "])
@pytest.mark.parametrize("repair", [False, True])
def test_answers(piece: str, repair: bool) -> None:
    in_time(lambda: parse_json(f"```{repeated(piece)}x", repair=repair))
    in_time(lambda: parse_arguments(f"```{repeated(piece)}x", max_bytes=2 * SIZE))


@pytest.mark.parametrize(
    "piece", ["<", "<lang", "<lang>", "</lang>", "<think>", "<i>", "`", "{{", "\\<", "<tool_call>"]
)
def test_tags(piece: str) -> None:
    text = repeated(piece)
    in_time(lambda: transform(text, TAGS))
    in_time(lambda: content_tags_to_tool_calls({"content": f"{text}<tool_call>"}, TAGS))


@pytest.mark.parametrize("piece", ["<lang>", "<think>", "<i>", "`", "{{ ", "\\<", "<"])
def test_streams(piece: str) -> None:
    def stream() -> None:
        filtered = OutputTagsStream(TAGS)
        for _ in range(5000):
            filtered.feed(piece)
        filtered.finish()

    in_time(stream)


@pytest.mark.parametrize(
    "template",
    [
        repeated("{{"),
        repeated("{%"),
        repeated("{% raw %}"),
        repeated("{% comment %}"),
        "{% setvar a = x" + " " * SIZE + "y %}",
        "{% assign s = 'aaaaaaaaaaaaaaaaaaaa' %}{{ s" + " | replace: 'a', 'aaaaaaaaaa'" * 30 + " }}",
        "{{ (1..999999999) | join: 'x' | size }}",
        "{{ 9 " + "| times: 99999999999999999999 " * 2000 + "}}",
    ],
    ids=["output", "tag", "raw", "comment", "blanks", "replace", "range", "numbers"],
)
def test_templates(template: str) -> None:
    in_time(lambda: render_liquid(template))


def test_server_sent_events() -> None:
    in_time(lambda: read_events(*[b"x" * 1024] * 5000))
