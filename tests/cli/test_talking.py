"""``chat``, ``preset`` and ``eval``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tavernkit.risu_ai.files.preset import Preset as RisuPreset
from tavernkit.silly_tavern import ChatFile, Preset
from tavernkit.testing import ScriptedModel, failure, serve_in_thread, streamed
from tests.cli.terminal import BOOK, CARD, PRESET, Tavernkit, Terminal, in_process

NO_MODEL = "http://127.0.0.1:9"


def test_a_conversation_in_a_terminal(tmp_path: Path) -> None:
    chat = tmp_path / "aria.jsonl"
    terminal = Terminal(
        "chat", CARD, "--book", BOOK, "--user", "Ann", "--base-url", "scripted", "--save", str(chat),
        "--reply", "First reply.", "--reply", "Second version.", "--reply", "Third reply.",
    )  # fmt: skip
    assert "You are wet, Ann" in terminal.wait_for("Ann> ")
    terminal.type("Who lit the lamp?")
    assert "First reply." in terminal.wait_for("Ann> ")
    terminal.type("/why lamp")
    assert "key 'lamp'" in terminal.wait_for("Ann> ")
    terminal.type("/explain")
    explained = terminal.wait_for("Ann> ")
    assert "chat history" in explained
    assert "tokens" in explained
    terminal.type("/swipe")
    assert "Second version." in terminal.wait_for("Ann> ")
    terminal.type("/left")
    assert "[1/2] First reply." in terminal.wait_for("Ann> ")
    terminal.type("And then?")
    assert "Third reply." in terminal.wait_for("Ann> ")
    terminal.type("/undo")
    terminal.wait_for("Ann> ")
    terminal.type("/nonsense")
    assert "/help" in terminal.wait_for("Ann> ")
    terminal.type("/help")
    assert "/swipe" in terminal.wait_for("Ann> ")
    terminal.type("/quit")
    assert terminal.finish().code == 0
    saved = ChatFile.load(chat)
    assert [message.mes for message in saved.messages[1:]] == ["Who lit the lamp?", "First reply."]
    assert list(saved.messages[2].swipes or ()) == ["First reply.", "Second version."]
    assert saved.messages[2].swipe_id == 0


def test_the_options_of_the_preset_are_sent(tavernkit: Tavernkit, tmp_path: Path) -> None:
    preset = tmp_path / "preset.json"
    preset.write_text(json.dumps({"temperature": 0.35, "openai_max_tokens": 77, "openai_model": "gpt-4o"}))
    model = ScriptedModel("Well.")
    with serve_in_thread(model) as url:
        outcome = tavernkit(
            "chat", CARD, "--preset", str(preset), "--base-url", url, "--model", "my-model",
            "--save", str(tmp_path / "aria.jsonl"), "--say", "Hi", "--json",
        )  # fmt: skip
    assert outcome.code == 0, outcome.err
    body = model.requests[0]
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("my-model", 0.35, 77)


def test_a_chat_goes_on_where_it_ended(tavernkit: Tavernkit, tmp_path: Path) -> None:
    chat = str(tmp_path / "aria.jsonl")
    for line in ("one", "two"):
        outcome = tavernkit("chat", CARD, "--base-url", "scripted", "--save", chat, "--say", line, "--json")
        assert outcome.code == 0, outcome.err
    assert [message.mes for message in ChatFile.load(chat).messages if message.is_user] == ["one", "two"]


@pytest.mark.parametrize("option", ["--model", "--chat-model"])
def test_a_chat_over_http_streams_and_sends_the_prompt(tavernkit: Tavernkit, tmp_path: Path, option: str) -> None:
    model = ScriptedModel(streamed("Aye", ", ", "Ann."))
    with serve_in_thread(model) as url:
        outcome = tavernkit(
            "chat", CARD, "--user", "Ann", "--base-url", url, option, "m",
            "--save", str(tmp_path / "a.jsonl"), "--say", "Hello",
        )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert outcome.out == "Aye, Ann.\n"
    assert model.requests[0]["model"] == "m"
    assert json.dumps(model.requests[0]["messages"]).count("Hello") == 1


def test_an_endpoint_that_fails_is_a_readable_error_and_the_chat_stays(tavernkit: Tavernkit, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with serve_in_thread(ScriptedModel(failure(400, "no such model"), repeat_last=True)) as url:
        outcome = tavernkit("chat", CARD, "--base-url", url, "--save", str(path), "--say", "Hello")
    assert outcome.code == 4
    assert "no such model" in outcome.err
    assert not path.exists()


def test_an_endpoint_that_is_not_there_is_a_failure_of_the_model(tavernkit: Tavernkit, tmp_path: Path) -> None:
    with serve_in_thread(ScriptedModel()) as url:
        pass
    outcome = tavernkit("chat", CARD, "--base-url", url, "--save", str(tmp_path / "a.jsonl"), "--say", "Hello")
    assert (outcome.code, outcome.err.splitlines()[-1][:28]) == (4, "error: the connection failed")


def test_a_chat_needs_a_model(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("chat", CARD, "--say", "x")
    assert outcome.code == 2
    assert "--base-url" in outcome.err


def test_presets_go_to_the_other_program_and_back(tavernkit: Tavernkit, tmp_path: Path) -> None:
    theirs, back = tmp_path / "mine.risup", tmp_path / "back.json"
    assert tavernkit("preset", "convert", PRESET, str(theirs)).code == 1  # the scenario format is lost
    assert RisuPreset.load(theirs).prompt_template
    told = json.loads(tavernkit("preset", "convert", str(theirs), str(back), "--json").out)
    assert told["format"] == "silly_tavern"
    main = Preset.load(back).effective_prompts[0].content or ""
    assert "{{char}}'s next reply" in main
    assert tavernkit("preset", "convert", PRESET, str(theirs)).code == 2


def test_eval_lists_runs_and_judges_a_model(tavernkit: Tavernkit, tmp_path: Path) -> None:
    runs = json.loads(tavernkit("eval", "--list", "--json").out)["runs"]
    assert {run["suite"] for run in runs} == {"tools", "directives"}
    out = tmp_path / "results"
    outcome = tavernkit(
        "eval", "--base-url", "scripted", "--suite", "tools", "--scenario", "happy_path,chat_only",
        "--out", str(out), "--json",
    )  # fmt: skip
    assert outcome.code == 1
    summary = json.loads(outcome.out)
    assert summary["overall"]["runs"] == 2
    assert (out / "report.md").exists()
    assert tavernkit("eval", "--suite", "nonsense").code == 2


def test_a_new_chat_leaves_those_that_are_there_alone(
    tavernkit: Tavernkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for line in ("one", "two"):
        told = tavernkit("chat", CARD, "--base-url", "scripted", "--say", line, "--json")
        assert ChatFile.load(json.loads(told.out)["file"]).messages[1].mes == line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Aria 2.jsonl", "Aria.jsonl"]


def test_a_conversation_says_where_it_is_saved(tmp_path: Path) -> None:
    outcome = in_process("chat", CARD, "--base-url", "scripted", "--save", str(tmp_path / "a.jsonl"), stdin="Hi\n")
    assert f"saved in {tmp_path / 'a.jsonl'}" in " ".join(outcome.out.split())


@pytest.mark.parametrize("command", [("chat", CARD, "--say", "Hi"), ("eval",)])
def test_a_missing_extra_is_told_before_anything_is_asked(
    tavernkit: Tavernkit, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    outcome = tavernkit(*command, "--base-url", NO_MODEL)
    assert (outcome.code, outcome.out) == (2, "")
    assert "tavernkit[models]" in outcome.err


def test_an_evaluation_of_a_model_that_never_answers_is_the_models_failure(tavernkit: Tavernkit) -> None:
    with serve_in_thread(ScriptedModel(failure(401, "no key"), repeat_last=True)) as url:
        outcome = tavernkit("eval", "--base-url", url, "--suite", "tools", "--scenario", "chat_only")
    assert outcome.code == 4
    assert "no key" in outcome.out


def test_an_interrupted_evaluation_goes_on(tavernkit: Tavernkit, tmp_path: Path) -> None:
    command = ("eval", "--base-url", "scripted", "--suite", "tools", "--out", str(tmp_path), "--json")
    assert tavernkit(*command, "--scenario", "chat_only").code == 0
    refused = tavernkit(*command, "--scenario", "chat_only,happy_path")
    assert (refused.code, "--resume" in refused.err) == (2, True)
    log = tmp_path / "runs.jsonl"
    first = log.read_text(encoding="utf-8")
    log.write_text(first + '{"config": {"su', encoding="utf-8")
    outcome = tavernkit(*command, "--scenario", "chat_only,happy_path", "--resume")
    assert json.loads(outcome.out)["overall"]["runs"] == 2
    assert "runs.jsonl, line 2 was left out" in outcome.err
    assert log.read_text(encoding="utf-8").startswith(first)
    assert log.read_text(encoding="utf-8").count('"scenario": "chat_only"') == 1
    assert json.loads(log.read_text(encoding="utf-8").splitlines()[-1])["config"]["scenario"] == "happy_path"
    assert tavernkit("eval", "--base-url", "scripted", "--resume").code == 2
