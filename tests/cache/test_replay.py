"""Chats are replayed turn by turn, and the command prints what came out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tavernkit as tk
from tavernkit import silly_tavern as st
from tavernkit.cache import predict
from tavernkit.cli.app import run
from tavernkit.examples import example_path
from tavernkit.prompt import Plan
from tavernkit.silly_tavern import replay

FILES = [str(example_path("aria.json")), "--chat", str(example_path("chat.jsonl"))]


def builder(**inputs: object) -> st.Builder:
    character = tk.load(example_path("aria.json")).character
    chat = st.ChatFile.load(example_path("chat.jsonl"))
    return st.Builder(character=character, history=chat, warn=None).replace(**inputs)  # pyright: ignore[reportArgumentType]


def test_every_reply_of_a_chat_is_a_turn_and_its_prompt_ends_before_it() -> None:
    turns = list(replay(builder()))
    assert [turn.line for turn in turns] == [2, 4]
    assert [isinstance(turn.plan, st.ChatPlan) and len(turn.plan.chat) for turn in turns] == [2, 4]
    assert turns[0].at is not None


def test_a_chat_that_ends_with_the_user_has_the_prompt_of_the_next_reply() -> None:
    chat = st.ChatFile.load(example_path("chat.jsonl"))
    assert [turn.line for turn in replay(builder(history=chat.messages[:4]))] == [2, 4]
    assert [turn.line for turn in replay(builder(history=chat.messages[:1]))] == []


def test_variables_and_timed_lore_go_from_turn_to_turn_and_not_into_the_store() -> None:
    from tavernkit.stores import InMemoryVariablesStore

    store = InMemoryVariablesStore()
    preset = st.Preset.default().replace(new_chat_prompt="[{{incvar::turns}}]")
    turns = list(
        replay(builder(preset=preset, variables=store, books=[st.WorldBook.load(example_path("tidewatch.json"))]))
    )
    assert ["[1]" in _texts(turns[0].plan), "[2]" in _texts(turns[1].plan)] == [True, True]
    assert store.to_dict() == {}


def _texts(plan: Plan) -> list[str]:
    return [block.content for block in plan.enabled_blocks]


def test_the_clock_of_a_turn_is_the_time_of_its_message_and_time_macros_are_blamed() -> None:
    prompts = [{"identifier": "main", "system_prompt": True, "role": "system", "content": "It is {{isotime}}."}]
    data = {**st.Preset.default().to_json(), "prompts": prompts}
    turns = list(replay(builder(preset=st.Preset.from_json(data))))
    assert [_texts(turn.plan)[0] for turn in turns] == ["It is 20:01.", "It is 20:02."]
    cause, _, _ = predict([turn.spans for turn in turns], "llama_cpp").causes[0]
    assert cause.reason == "{{isotime}} in preset prompt Main Prompt gives another text in every prompt"
    assert cause.cause == "time"


def test_the_command_prints_a_table_a_chart_and_causes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    assert run(["cache", *FILES, "--book", str(example_path("tidewatch.json")), "--profile", "llama_cpp"]) == 0
    printed = capsys.readouterr().out
    for part in ("what broke it", "░", "█", "cached", "tokens lost", "new lore: The Grey Fleet", 'lore="freeze"'):
        assert part in printed


@pytest.mark.parametrize(("platform", "cause"), [("silly_tavern", None), ("risu_ai", "depth")])
def test_the_command_prints_json(capsys: pytest.CaptureFixture[str], platform: str, cause: str | None) -> None:
    assert run(["cache", *FILES, "--platform", platform, "--profile", "deepseek", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["profile"] == "deepseek"
    assert len(report["turns"]) == 2
    assert report["turns"][1]["cached_tokens"] > 0
    broken = report["turns"][1]["broken"]
    assert (broken and broken["cause"]) == cause  # in a chat this short, depth 4 is its start


def test_the_command_writes_a_page_in_which_texts_are_escaped(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    book = tmp_path / "book.json"
    entry = {"uid": 0, "comment": "<script>x</script>", "key": ["grey sails"], "position": 0, "content": "Seven ships."}
    book.write_text(json.dumps({"entries": {"0": entry}}))
    page = tmp_path / "cache.html"
    assert run(["cache", *FILES, "--book", str(book), "--keep", "--profile", "llama_cpp", "--html", str(page)]) == 0
    assert "The report is in" in capsys.readouterr().out
    html = page.read_text(encoding="utf-8")
    assert "Aria: what a prompt cache keeps" in html
    assert "after message #3" in html
    assert "&lt;script&gt;" in html
    assert "<script" not in html
    assert run(["cache", *FILES, "--keep", "--json"]) == 0
    moved = json.loads(capsys.readouterr().out)["moved"]
    assert {"name", "reference", "place", "reason"} <= set(moved[0])


def test_pauses_empty_the_cache(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    chat = st.ChatFile.load(example_path("chat.jsonl"))
    later = chat.messages[3].replace(send_date="2026-01-06T20:00:00.000Z")
    path = tmp_path / "chat.jsonl"
    st.ChatFile((*chat.messages[:3], later)).save(path)
    arguments = ["cache", FILES[0], "--chat", str(path), "--profile", "deepseek", "--json"]
    cached: list[int] = []
    for more in ([], ["--pauses"]):
        assert run([*arguments, *more]) == 0
        cached.append(json.loads(capsys.readouterr().out)["cached_tokens"])
    assert cached[0] > 0
    assert cached[1] == 0


def test_the_command_needs_a_chat_and_a_known_profile(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["cache", FILES[0]]) == 2
    assert "--chat" in capsys.readouterr().err
    assert run(["cache", *FILES, "--profile", "open_ai"]) == 2
    assert "did you mean 'openai'" in capsys.readouterr().err
    empty = tmp_path / "empty.jsonl"
    st.ChatFile().save(empty)
    assert run(["cache", FILES[0], "--chat", str(empty)]) == 2
