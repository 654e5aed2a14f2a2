"""Who speaks, under which role and with how much thought: corners of the converters that recordings leave open."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tavernkit._values import Json, JsonObject
from tavernkit.silly_tavern.providers._chat.claude import claude_budget
from tavernkit.silly_tavern.providers._chat.google import convert_google, google_budget
from tavernkit.silly_tavern.providers._chat.message_forms import post_process, to_text_prompt
from tavernkit.silly_tavern.providers._chat.messages import Messages, PromptNames
from tavernkit.silly_tavern.providers._chat.own import convert_ai21, convert_mistral, convert_xai
from tavernkit.silly_tavern.providers._chat.shared import add_assistant_prefix, add_signatures, embed_media
from tavernkit.silly_tavern.providers._request import SillyTavernConfig

NAMES = PromptNames(char_name="Vesna", user_name="Tomas", group_names=("Orrin",))
NOBODY = PromptNames()
VIDEO: JsonObject = {"type": "video_url", "video_url": {"url": "data:video/webm;base64,Vg=="}}
AUDIO: JsonObject = {"type": "audio_url", "audio_url": {"url": "data:audio/wav;base64,QQ=="}}
CALL: JsonObject = {"id": "c", "type": "function", "function": {"name": "wx", "arguments": "{}"}}


def said(role: str, content: Json, **more: Json) -> JsonObject:
    return {"role": role, "content": content, **more}


TALK: Messages = [
    said("system", "S"),
    said("assistant", "A", tool_calls=[CALL]),
    said("tool", "T", tool_call_id="c", name="wx"),
    said("assistant", "Orrin: y"),
    said("user", ""),
]


@pytest.mark.parametrize(
    ("kind", "roles", "texts"),
    [
        ("claude", "system assistant user assistant user", ["S", "A", "wx: T", "Orrin: y", ""]),
        ("semi", "system assistant user assistant user", ["S", "A", "wx: T", "Orrin: y", ""]),
        ("semi_tools", "system assistant tool assistant user", ["S", "A", "wx: T", "Orrin: y", ""]),
        ("strict", "system user assistant user assistant user", ["S", "PH", "A", "wx: T", "Orrin: y", ""]),
        ("strict_tools", "system user assistant tool assistant user", ["S", "PH", "A", "wx: T", "Orrin: y", ""]),
        ("single", "user", ["S\n\nVesna: A\n\nTomas: wx: T\n\nOrrin: y\n\nTomas: "]),
        ("Strict", "system assistant tool assistant user", ["S", "A", "T", "Orrin: y", ""]),
    ],
)
def test_each_kind_of_post_processing_has_its_roles_and_names(kind: str, roles: str, texts: list[str]) -> None:
    found = post_process(TALK, kind, NAMES, SillyTavernConfig(prompt_placeholder="PH"))
    assert ([turn["role"] for turn in found], [turn["content"] for turn in found]) == (roles.split(), texts)
    assert any("tool_calls" in turn for turn in found) == (kind.endswith("_tools") or kind == "Strict")


def test_names_that_are_not_known_are_not_written() -> None:
    example = said("system", "e", name="example_assistant")
    assert post_process([example, said("assistant", "A"), said("user", "u")], "single", NOBODY) == [
        said("user", "e\n\nA\n\nu")
    ]
    assert convert_xai([said("assistant", "A", name="Zed")], names=NOBODY) == [said("assistant", "A")]


def test_videos_and_sounds_keep_their_places_among_merged_texts() -> None:
    parts: list[Json] = [VIDEO, {"type": "text", "text": "a\n\nb"}, {"type": "text", "text": "c"}, AUDIO, {"type": "x"}]
    (merged,) = post_process([said("user", parts), said("user", "z")], "merge", NAMES)
    assert merged["content"] == [
        VIDEO,
        {"type": "text", "text": "a\n\nb\n\nc"},
        AUDIO,
        {"type": "text", "text": "\n\nz"},
    ]


@pytest.mark.parametrize(
    ("convert", "turns", "found"),
    [
        (
            convert_ai21,
            [said("user", "u", name=""), said("system", "s", name="Sys"), said("tool", "t", name="T")],
            [said("user", ": u"), said("system", "s"), said("tool", "T: t")],
        ),
        (
            convert_mistral,
            [said("assistant", "a"), said("system", "s"), said("system", "t", name="Sys")],
            [said("assistant", "a"), said("user", "s"), said("system", "t", name="Sys")],
        ),
        (
            convert_mistral,
            [said("user", "u", name="Ann"), said("user", "Ann: u", name="Ann"), said("user", "u", name="")],
            [said("user", "Ann: u"), said("user", "Ann: u", name="Ann"), said("user", "u", name="")],
        ),
        (
            convert_xai,
            [
                said("assistant", "a", name="Zed"),
                said("assistant", "Orrin: b", name="Zed"),
                said("tool", "t", name="T"),
            ],
            [said("assistant", "Vesna: a"), said("assistant", "Orrin: b"), said("tool", "t")],
        ),
    ],
)
def test_each_provider_has_its_own_way_with_names(
    convert: Callable[..., Messages], turns: Messages, found: Messages
) -> None:
    assert convert(turns, names=NAMES) == found


def test_a_text_prompt_names_system_messages_by_their_name_and_others_by_their_role() -> None:
    turns: list[Json] = [said("system", "a"), said("system", "b", name="N"), said("system", "c", name=None)]
    text = "System: a\nN: b\nnull: c\nassistant: d\nassistant:"
    assert to_text_prompt([*turns, said("assistant", "d", name="Zed")]) == text


@pytest.mark.parametrize(
    ("turns", "tools", "marked"),
    [
        ([said("assistant", "a")], None, True),
        ([said("assistant", "a")], [], True),
        ([said("assistant", "a")], [{"type": "function"}], False),
        ([said("tool", "t"), said("assistant", "a")], None, False),
        ([said("assistant", "a"), said("user", "u")], None, False),
    ],
)
def test_an_assistants_last_words_are_marked_unless_tools_are_in_play(
    turns: Messages, tools: Json, marked: bool
) -> None:
    assert ("partial" in add_assistant_prefix(turns, tools, "partial")[-1]) is marked


def test_google_keeps_calls_and_results_of_one_turn_apart_from_its_text() -> None:
    turns: Messages = [
        said("assistant", "first"),
        said("assistant", None, tool_calls=[CALL]),
        said("tool", "sun", tool_call_id="c"),
        said("user", "", name="Ann"),
        said("user", [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]),
    ]
    found = convert_google(turns, model="gemini-2.0-flash", use_system_prompt=True, names=NAMES).contents
    response = {"name": "wx", "response": {"name": "wx", "content": "sun"}}
    assert found == [
        {"role": "model", "parts": [{"text": "first"}, {"functionCall": {"name": "wx", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": response}, {"text": "Ann: "}]},
    ]


def test_googles_media_have_their_own_kind_and_where_asked_for_their_resolution() -> None:
    image: JsonObject = {"type": "image_url", "image_url": {"url": "data:,QQ==", "detail": "low"}}
    parts: list[Json] = [image, {"type": "video_url", "video_url": {"url": "data:,Vg=="}}, AUDIO]
    turns: Messages = [said("user", "look"), said("user", parts)]
    found = convert_google(turns, model="gemini-3-pro", use_system_prompt=False, names=NAMES).contents[0]["parts"]
    assert found == [
        {"text": "look"},
        {
            "inlineData": {"mimeType": "image/png", "data": "QQ=="},
            "mediaResolution": {"level": "media_resolution_low"},
        },
        {"inlineData": {"mimeType": "video/mp4", "data": "Vg=="}},
        {"inlineData": {"mimeType": "audio/wav", "data": "QQ=="}},
    ]


def test_the_router_hears_wav_as_such_and_everything_else_as_mp3() -> None:
    strange: JsonObject = {"type": "audio_url", "audio_url": {"url": "data:audio/ogg;base64,QQ=="}}
    web: JsonObject = {"type": "audio_url", "audio_url": {"url": "https://x/y.mp3"}}
    (heard,) = embed_media([said("user", [AUDIO, strange, web, VIDEO])])
    assert heard["content"] == [
        {"type": "input_audio", "input_audio": {"format": "wav", "data": "QQ=="}},
        {"type": "input_audio", "input_audio": {"format": "mp3", "data": "QQ=="}},
        web,
        VIDEO,
    ]


@pytest.mark.parametrize(
    ("model", "written"),
    [
        ("google/gemini-3-pro", "google-gemini-v1"),
        ("anthropic/claude-opus-4", "anthropic-claude-v1"),
        ("openai/gpt-5", "openai-responses-v1"),
        ("x-ai/grok-4", "xai-responses-v1"),
        ("mistralai/mistral", "unknown"),
    ],
)
def test_signatures_say_in_whose_format_they_are(model: str, written: str) -> None:
    message = said("assistant", "a", signature="M", tool_calls=[{**CALL, "signature": "C"}, {"signature": ""}])
    (kept,) = add_signatures([message], model)
    (dropped,) = add_signatures([message], model, SillyTavernConfig(gemini_thought_signatures=False))
    detail = {"type": "reasoning.encrypted", "format": written}
    assert kept["reasoning_details"] == [
        {"index": 0, "id": "signature-0", "data": "M", **detail},
        {"index": 1, "id": "c", "data": "C", **detail},
    ]
    assert dropped["reasoning_details"] == [{"index": 0, "id": "c", "data": "C", **detail}]
    assert "signature" not in kept
    assert kept["tool_calls"] == [CALL, {}]


@pytest.mark.parametrize(
    ("effort", "streamed", "at_once", "adaptive"),
    [
        ("auto", None, None, None),
        ("min", 1024, 1024, "low"),
        ("low", 6000, 6000, "low"),
        ("medium", 15000, 15000, "medium"),
        ("high", 30000, 21333, "high"),
        ("max", 57000, 21333, "max"),
        ("other", 1024, 1024, None),
    ],
)
def test_claude_thinks_by_effort(effort: str, streamed: object, at_once: object, adaptive: object) -> None:
    assert claude_budget(60000, effort, stream=True) == streamed
    assert claude_budget(60000, effort, stream=False) == at_once
    assert claude_budget(60000, effort, stream=True, adaptive=True) == adaptive


@pytest.mark.parametrize(
    ("model", "tokens", "budgets"),
    [
        ("gemini-2.5-flash-lite", 6000, (-1, 0, 600, 1500, 3000, 6000, 512)),
        ("gemini-2.5-flash-lite", 90000, (-1, 0, 9000, 22500, 24576, 24576, 512)),
        ("gemini-2.5-flash", 100, (-1, 0, 10, 25, 50, 100, 0)),
        ("gemini-2.5-pro", 1000, (-1, 128, 128, 250, 500, 1000, 128)),
        ("gemini-2.5-pro", 90000, (-1, 128, 9000, 22500, 32768, 32768, 128)),
        ("gemini-3-pro-preview", 9, (None, "low", "low", "low", "high", "high", None)),
        ("gemini-3.5-flash-lite", 9, (None, "minimal", "low", "medium", "high", "high", None)),
        ("gemini-3.7-flash", 9, (None, "low", "low", "medium", "high", "high", None)),
        ("learnlm-2.0", 9, (None,) * 7),
    ],
)
def test_google_thinks_by_model_and_effort(model: str, tokens: int, budgets: tuple[object, ...]) -> None:
    efforts = ("auto", "min", "low", "medium", "high", "max", "other")
    assert tuple(google_budget(tokens, effort, model) for effort in efforts) == budgets
