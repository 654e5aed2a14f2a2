"""Recorded requests and bodies, key by key: the conformance runner would let an object have more keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tavernkit.silly_tavern import Preset
from tavernkit.silly_tavern.providers import (
    CHAT_SOURCES,
    TEXT_BACKENDS,
    ChatInput,
    TextInput,
    chat_page_body,
    text_page_body,
)
from tests.conformance import runner

TEXT = "silly_tavern/text_backend_requests"
CHAT = "silly_tavern/provider_requests_all"
TOKENIZED = ("stop_sequences", "bad_words_ids", "logit_bias_exp")
"""What NovelAI gets as token ids of tokenizers that are not here."""
API_NAMES = {"novel": "novelai"}
NAMES = {"{{char}}": "Orla", "{{user}}": "Ansel"}


def expand(text: str) -> str:
    for macro, name in NAMES.items():
        text = text.replace(macro, name)
    return text


def unlike(expected: Any, actual: Any) -> list[str]:
    """What differs, missing and surplus keys included."""
    return [*runner.differences(expected, actual), *runner.differences(actual, expected)]


@pytest.mark.parametrize("surface", [TEXT, CHAT])
def test_every_request_is_the_recorded_one(surface: str) -> None:
    wrong = {
        case.id: found for case in runner.cases(surface) if (found := unlike(case.expected, runner.run(case).actual))
    }
    assert wrong == {}


@pytest.mark.parametrize("surface", [TEXT, CHAT])
def test_making_a_request_leaves_the_body_as_it_was(surface: str) -> None:
    changed: list[str] = []
    for case in runner.cases(surface):
        before = json.dumps(case.input)
        runner.run(case)
        if json.dumps(case.input) != before:
            changed.append(case.id)
    assert changed == []


@pytest.mark.parametrize("backend", TEXT_BACKENDS)
def test_text_page_makes_the_recorded_body(backend: str) -> None:
    wrong: dict[str, list[str]] = {}
    for case in runner.cases(TEXT):
        page, expected = case.input["page"], case.input["body"]
        if API_NAMES.get(page["api"], page["api"]) != backend:
            continue
        made = page_body(backend, page)
        if backend == "huggingface" and page["settings"].get("seed", -1) < 0:
            assert 0 <= made["seed"] < 2**32
            made["seed"] = expected["seed"]
        if backend == "novelai":
            made |= {key: expected[key] for key in TOKENIZED if key in expected and key in made}
        if found := unlike(expected, made):
            wrong[case.id] = found
    assert wrong == {}


def page_body(backend: str, page: dict[str, Any]) -> dict[str, Any]:
    cfg = page.get("cfg", {})
    given = TextInput(
        prompt=page["prompt"],
        max_tokens=page["max_tokens"],
        max_context=page["max_context"],
        stop_strings=page.get("stop_strings", []),
        generation_type=page["type"],
        server=page.get("server", ""),
        stream=page.get("stream", False),
        token_probabilities=page.get("request_token_probabilities", False),
        guidance_scale=cfg.get("guidanceScale", {}).get("value"),
        negative_prompt=cfg.get("negativePrompt"),
        features=page.get("features", []),
        expand=expand,
        warn=lambda _message: None,
    )
    made: dict[str, Any] = text_page_body(backend, page["settings"], given)
    return json.loads(json.dumps(made))


@pytest.mark.parametrize("source", CHAT_SOURCES)
def test_chat_page_makes_the_recorded_body(source: str) -> None:
    wrong: dict[str, list[str]] = {}
    for case in runner.cases(CHAT):
        page, expected = case.input.get("page"), case.input["body"]
        if page is None or page["settings"]["chat_completion_source"] != source:
            continue
        made = chat_body(case.folder, page, expected)
        made |= {key: expected[key] for key in page.get("added_by_hand", ())}
        if found := unlike(expected, made):
            wrong[case.id] = found
    assert wrong == {}


def chat_body(folder: Path, page: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    source = page["settings"]["chat_completion_source"]
    defaults = json.loads((folder / "provider_requests_all.defaults.json").read_text(encoding="utf-8"))
    preset = Preset.from_settings({**defaults, **page["settings"]}).with_model(page["model"])
    listed = next((each["metadata"] for each in page.get("model_list", ()) if each["id"] == page["model"]), {})
    given = ChatInput(
        generation_type=page["type"],
        user_name="Ansel",
        char_name="Orla",
        group_names=page.get("group_names", ()),
        stop_strings=[expand(text) for text in page.get("custom_stopping_strings", ())],
        tools=expected.get("tools") or [{"type": "function"} for _ in page.get("function_tools", ())],
        can_call_tools=listed.get("function_call"),
        efforts=listed.get("supported_reasoning_efforts"),
        json_schema=expected.get("json_schema"),
        logit_bias=page.get("logit_bias"),
        token_probabilities=page.get("request_token_probabilities", False),
        chat_id=page.get("chat_id", ""),
        expand=expand,
    )
    assert preset.chat_completion_source == source
    made: dict[str, Any] = chat_page_body(preset, page.get("messages", expected["messages"]), given)
    return json.loads(json.dumps(made))
