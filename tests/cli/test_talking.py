"""``chat``, ``preset`` and ``eval``."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tavernkit._values import JsonObject
from tavernkit.cli import talk
from tavernkit.cli.options import ModelOptions
from tavernkit.conversation import _stores as stores
from tavernkit.risu_ai import ChatFile as RisuChatFile
from tavernkit.risu_ai import Save
from tavernkit.risu_ai._files.preset import Preset as RisuPreset
from tavernkit.silly_tavern import ChatFile, Preset
from tavernkit.testing import Hang, ScriptedModel, failure, serve_in_thread, streamed
from tests.cli.terminal import BOOK, CARD, PRESET, Tavernkit, Terminal, in_process

NO_MODEL = "http://127.0.0.1:9"


def test_a_conversation_in_a_terminal(tmp_path: Path) -> None:
    chat = tmp_path / "aria.jsonl"
    terminal = Terminal(
        "chat", CARD, "--book", BOOK, "--user", "Ann", "--model", "scripted", "--save", str(chat),
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


def test_a_model_is_named_with_its_provider(tavernkit: Tavernkit, tmp_path: Path) -> None:
    save = ("--save", str(tmp_path / "aria.jsonl"))
    model = ScriptedModel("Well.")
    with serve_in_thread(model) as url:
        outcome = tavernkit("chat", CARD, "--model", "openai:gpt-4o", "--base-url", url, *save, "--say", "Hi")
    assert outcome.code == 0, outcome.err
    assert model.requests[0]["model"] == "gpt-4o"
    outcome = tavernkit("chat", CARD, "--model", "anthropic:claude-sonnet-4-5", *save, "--say", "Hi")
    assert (outcome.code, "ANTHROPIC_API_KEY" in outcome.err) == (2, True)
    outcome = tavernkit("chat", CARD, "--model", "gpt-4o", *save, "--say", "Hi")
    assert (outcome.code, "openai:gpt-4o" in outcome.err) == (2, True)


def test_another_server_does_not_get_the_providers_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the provider's")
    for own in (None, "its own"):
        if own is not None:
            monkeypatch.setenv("TAVERNKIT_API_KEY", own)
        made: Any = ModelOptions(model="openai:gpt-4o", base_url=NO_MODEL).connect()
        assert made.inner.endpoint.api_key == own


def test_a_chat_goes_on_where_it_ended(tavernkit: Tavernkit, tmp_path: Path) -> None:
    chat = str(tmp_path / "aria.jsonl")
    for line in ("one", "two"):
        outcome = tavernkit("chat", CARD, "--model", "scripted", "--save", chat, "--say", line, "--json")
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
    assert url in outcome.err
    assert [message.mes for message in ChatFile.load(path).messages][1:] == ["Hello"]


def test_an_endpoint_that_is_not_there_is_a_failure_of_the_model(tavernkit: Tavernkit, tmp_path: Path) -> None:
    with serve_in_thread(ScriptedModel()) as url:
        pass
    outcome = tavernkit("chat", CARD, "--base-url", url, "--save", str(tmp_path / "a.jsonl"), "--say", "Hello")
    assert (outcome.code, outcome.err.splitlines()[-1][:28]) == (4, "error: the connection failed")
    assert url in outcome.err


def test_every_command_of_a_chat(tmp_path: Path) -> None:
    chat, copy = tmp_path / "aria.jsonl", tmp_path / "copy.jsonl"
    replies = ("First.", "Second.", "And more.", "My words.", "Third.")
    terminal = Terminal(
        "chat", CARD, "--user", "Ann", "--model", "scripted", "--save", str(chat),
        *(part for reply in replies for part in ("--reply", reply)),
    )  # fmt: skip

    def after(line: str) -> str:
        terminal.type(line)
        return terminal.wait_for("Ann> ")

    terminal.wait_for("Ann> ")
    assert "Nothing was sent yet." in after("/explain")
    assert "First." in after("Hello")
    assert "Second." in after("/regenerate")
    assert "And more." in after("/continue")
    assert "Edited." in after("/edit 1 Hello there")
    assert "1 Ann: Hello there" in after("/lines")
    terminal.type("/impersonate")
    terminal.wait_for("Ann> My words.")  # it is typed already
    assert "Third." in after("")
    assert "Taken back." in after("/undo")
    assert "copy.jsonl" in after(f"/save {copy}")
    assert "already exists" in after(f"/save {copy}")
    assert "aria - Branch #1.jsonl" in "".join(after("/branch 1").split("\r\n")).replace("\n", "")
    assert "aria - Branch #1.jsonl" in "".join(after("/save").split("\r\n"))
    assert "Aria keeps the lighthouse" in after("/explain")  # what was sent before the branch
    assert "there is no line 9" in after("/branch 9")
    assert "not a group" in after("/speak Bo")
    terminal.type("/quit")
    assert terminal.finish().code == 0
    texts = [message.mes for message in ChatFile.load(chat).messages[1:]]
    assert texts == ["Hello there", "Second. And more."]
    assert [message.mes for message in ChatFile.load(copy).messages[1:]] == texts
    assert [message.mes for message in ChatFile.load(tmp_path / "aria - Branch #1.jsonl").messages[1:]] == texts[:1]


def test_ctrl_c_keeps_the_partial_reply_and_stays_and_a_second_one_leaves(tmp_path: Path) -> None:
    chat = tmp_path / "aria.jsonl"
    with serve_in_thread(ScriptedModel(Hang(("Once upon", " a time")), "After all.")) as url:
        terminal = Terminal("chat", CARD, "--user", "Ann", "--base-url", url, "--save", str(chat))
        terminal.wait_for("Ann> ")
        terminal.type("Tell me a story")
        terminal.wait_for(" a time")
        terminal.interrupt()
        assert "the partial reply is kept" in terminal.wait_for("Ann> ")
        assert [message.mes for message in ChatFile.load(chat).messages[1:]] == ["Tell me a story", "Once upon a time"]
        terminal.type("And?")
        assert "After all." in terminal.wait_for("Ann> ")
        terminal.interrupt()  # at once: nobody has to press Enter
        assert terminal.finish().code == 130


def wait_unheeded(handler: Any, pipe: int) -> None:
    with talk.interruptible_input():
        signal.signal(signal.SIGINT, handler)
        signal.raise_signal(signal.SIGINT)
        os.read(pipe, 1)  # nothing ever comes


def test_ctrl_c_just_before_the_prompt_waits_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(talk, "AGAIN_SECONDS", 0.01)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    ours, theirs = os.pipe()
    noticed = 0

    def unheeded(number: int, frame: object) -> None:
        nonlocal noticed
        noticed += 1
        if noticed > 1:  # the first one comes while nobody looks
            raise KeyboardInterrupt

    try:
        with pytest.raises(KeyboardInterrupt):
            wait_unheeded(unheeded, ours)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
        os.close(ours)
        os.close(theirs)
    assert noticed == 2


def test_every_turn_failing_is_a_failure_and_one_of_two_is_not(tavernkit: Tavernkit, tmp_path: Path) -> None:
    def said(*script: object) -> int:
        with serve_in_thread(ScriptedModel(*script)) as url:  # pyright: ignore[reportArgumentType]
            chat = str(tmp_path / f"{len(list(tmp_path.iterdir()))}.jsonl")
            return tavernkit("chat", CARD, "--base-url", url, "--save", chat, "--say", "One", "--say", "Two").code

    assert said(failure(400, "no"), failure(400, "no")) == 4
    assert said(failure(400, "no"), "Yes.") == 1
    assert said("Yes.", "Yes.") == 0


def test_a_conversation_whose_every_turn_failed_says_so(tmp_path: Path) -> None:
    chat = str(tmp_path / "a.jsonl")
    outcome = in_process("chat", CARD, "--base-url", NO_MODEL, "--save", chat, stdin="Hi\n/regenerate\n")
    assert outcome.code == 4
    assert NO_MODEL in outcome.err


def test_a_chat_by_the_rules_of_risuai(tavernkit: Tavernkit, tmp_path: Path) -> None:
    chat = tmp_path / "aria.json"
    for line in ("one", "two"):
        outcome = tavernkit(
            "chat", CARD, "--platform", "risu_ai", "--model", "scripted", "--reply", "Aye.",
            "--save", str(chat), "--say", line, "--json",
        )  # fmt: skip
        assert outcome.code == 0, outcome.err
    messages = RisuChatFile.load(chat).chats[0].messages
    assert [message.data for message in messages] == ["one", "Aye.", "two", "Aye."]


def test_a_chat_of_an_installation_is_written_back(tavernkit: Tavernkit, tmp_path: Path) -> None:
    chats = tmp_path / "chats" / "aria"
    chats.mkdir(parents=True)
    (tmp_path / "characters").mkdir()
    (tmp_path / "characters" / "aria.json").write_bytes(Path(CARD).read_bytes())
    (tmp_path / "settings.json").write_text(json.dumps({"username": "Ann", "kept": 1}))
    (chats / "old.jsonl").write_text('{"chat_metadata":{}}\n{"name":"Aria","mes":"Hm?"}')
    folder = ("--from-sillytavern", str(tmp_path), "--character", "Aria", "--model", "scripted", "--reply", "Aye.")
    outcome = tavernkit("chat", *folder, "--say", "Hello", "--json")
    assert outcome.code == 0, outcome.err
    told = json.loads(outcome.out)
    assert (told["replies"], told["file"]) == (["Aye."], str(chats / "old.jsonl"))
    assert [message.mes for message in ChatFile.load(chats / "old.jsonl").messages] == ["Hm?", "Hello", "Aye."]
    assert ChatFile.load(chats / "old.jsonl").messages[1].name == "Ann"
    elsewhere = tmp_path / "elsewhere.jsonl"
    before = (chats / "old.jsonl").read_bytes()
    assert tavernkit("chat", *folder, "--chat", "old", "--say", "More", "--save", str(elsewhere)).code == 0
    assert (chats / "old.jsonl").read_bytes() == before
    assert [message.mes for message in ChatFile.load(elsewhere).messages][-2:] == ["More", "Aye."]


def test_a_group_of_an_installation_talks(tavernkit: Tavernkit, tmp_path: Path) -> None:
    (tmp_path / "characters").mkdir()
    (tmp_path / "groups").mkdir()
    (tmp_path / "group chats").mkdir()
    (tmp_path / "settings.json").write_text('{"username": "Ann"}')
    for name in ("Anna", "Berta"):
        (tmp_path / "characters" / f"{name}.json").write_text(json.dumps({"name": name, "description": "x"}))
    group = {"id": "1", "name": "Quay", "members": ["Anna.json", "Berta.json"], "activation_strategy": 1}
    (tmp_path / "groups" / "1.json").write_text(json.dumps(group))
    folder = ("--from-sillytavern", str(tmp_path), "--group", "Quay", "--model", "scripted")
    replies = ("--reply", "I am Anna.", "--reply", "I am Berta.")
    outcome = tavernkit("chat", *folder, *replies, "--chat", "new", "--say", "Who?")
    assert outcome.code == 0, outcome.err
    assert outcome.out.split("\n\n") == ["Anna> I am Anna.", "Berta> I am Berta.", ""]
    told = json.loads(tavernkit("chat", *folder, *replies, "--chat", "new", "--say", "Who?", "--json").out)
    assert told["replies"] == ["I am Anna.", "I am Berta."]
    assert len(ChatFile.load(tmp_path / "group chats" / "new.jsonl").messages) == 6


def test_a_chat_of_a_risuai_save_goes_on_in_a_file(
    tavernkit: Tavernkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stored = [{"name": "first", "id": "x", "message": [{"role": "user", "data": "Hello, Bel."}]}]
    Save.from_json({"username": "Ann", "characters": [{"name": "Bel", "chats": stored}]}).save("backup.bin")
    outcome = tavernkit(
        "chat", "--from-risuai", "backup.bin", "--character", "Bel", "--model", "scripted", "--reply", "Aye.",
        "--say", "Well?", "--json",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["file"] == "Bel.json"
    messages = RisuChatFile.load("Bel.json").chats[0].messages
    assert [message.data for message in messages] == ["Hello, Bel.", "Well?", "Aye."]


def test_a_chat_remembers_from_turn_to_turn(tavernkit: Tavernkit, tmp_path: Path) -> None:
    card = tmp_path / "card.json"
    data = {"name": "Aria", "description": "Turn {{incvar::n}}.", "first_mes": "Hi."}
    card.write_text(json.dumps({"spec": "chara_card_v2", "spec_version": "2.0", "data": data}))
    model = ScriptedModel("One.", "Two.")
    with serve_in_thread(model) as url:
        chat = str(tmp_path / "a.jsonl")
        outcome = tavernkit("chat", str(card), "--base-url", url, "--save", chat, "--say", "1", "--say", "2")
    assert outcome.code == 0, outcome.err
    assert ["Turn 1." in json.dumps(model.requests[0]), "Turn 2." in json.dumps(model.requests[1])] == [True, True]


@pytest.mark.parametrize(("platform", "name"), [("silly_tavern", "a.json"), ("risu_ai", "a.jsonl")])
def test_a_chat_is_not_saved_under_the_ending_of_the_other_program(
    tavernkit: Tavernkit, tmp_path: Path, platform: str, name: str
) -> None:
    save = tmp_path / name
    outcome = tavernkit("chat", CARD, "-p", platform, "--model", "scripted", "--save", str(save), "--say", "Hi")
    assert (outcome.code, f"chats of {platform} end in" in outcome.err, save.exists()) == (2, True, False)


def test_a_chat_that_cannot_be_saved_is_no_fault_of_the_model(
    tavernkit: Tavernkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *content: bytes) -> None:
        raise OSError(28, "No space left on device")

    chat = ("chat", CARD, "--model", "scripted", "--save", str(tmp_path / "a.jsonl"))
    with monkeypatch.context() as full:
        full.setattr(stores, "write_atomically", refuse)
        outcome = tavernkit(*chat, "--say", "Hi")
        assert (outcome.code, "No space left" in outcome.err, "model" in outcome.err) == (2, True, False)
        typed = iter(["Hi"])
        full.setattr("builtins.input", lambda _: next(typed, "/quit"))
        outcome = tavernkit(*chat)
    assert outcome.code == 2
    assert "No space left on device; the next message saves what is missing" in " ".join(outcome.err.split())


def test_a_text_model_gets_one_text_and_where_to_stop(tavernkit: Tavernkit, tmp_path: Path) -> None:
    model = ScriptedModel("Well.")
    with serve_in_thread(model) as url:
        chat = str(tmp_path / "a.jsonl")
        outcome = tavernkit(
            "chat", CARD, "--user", "Ann", "--dialect", "text", "--base-url", url, "--save", chat, "--say", "Hello",
        )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert "Ann: Hello" in str(model.requests[0]["prompt"])
    assert "\nAnn:" in str(json.dumps(model.requests[0]["stop"]).encode().decode("unicode_escape"))


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
        "eval", "--model", "scripted", "--suite", "tools", "--scenario", "happy_path,chat_only",
        "--out", str(out), "--json",
    )  # fmt: skip
    assert outcome.code == 1
    summary = json.loads(outcome.out)
    assert summary["overall"]["runs"] == 2
    assert (out / "report.md").exists()
    assert tavernkit("eval", "--suite", "nonsense").code == 2


def test_several_models_and_providers_are_judged_in_one_run(tavernkit: Tavernkit, tmp_path: Path) -> None:
    def reply(body: JsonObject) -> str:
        return "Hello, friend." if body["model"] == "good" else ""

    model = ScriptedModel(reply, repeat_last=True)
    with serve_in_thread(model) as url:
        outcome = tavernkit(
            "eval", "--base-url", url, "--provider", "openrouter", "--model", "good", "--model", "bad",
            "--model", "deepseek:good", "--suite", "tools", "--scenario", "chat_only", "--out", str(tmp_path),
            "--retries", "0",
        )  # fmt: skip
    assert outcome.code == 1
    summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert {name: numbers["ok"] for name, numbers in summary["models"].items()} == {
        "openrouter · good": 1,
        "openrouter · bad": 0,
        "deepseek · good": 1,
    }
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert all(f"## {name}\n\n| suite |" in report for name in summary["models"])
    assert "openrouter · bad · chat_only" in summary["models_and_scenarios"]


def test_models_of_one_provider_share_its_rate(tavernkit: Tavernkit, monkeypatch: pytest.MonkeyPatch) -> None:
    from tavernkit.batching._generation import Meter

    taken: list[int] = []
    take = Meter.take

    def counted(meter: Meter) -> float | None:
        taken.append(id(meter))
        return take(meter)

    monkeypatch.setattr(Meter, "take", counted)
    with serve_in_thread(ScriptedModel("Hello.", repeat_last=True)) as url:
        tavernkit(
            "eval", "--base-url", url, "--model", "a", "--model", "b", "--model", "groq:c", "--suite", "tools",
            "--scenario", "chat_only", "--requests-per-second", "1000",
        )  # fmt: skip
    assert len(taken) == 3
    assert len(set(taken)) == 2


def test_eval_stops_at_its_budget_and_goes_on_with_what_is_missing(tavernkit: Tavernkit, tmp_path: Path) -> None:
    runs = ("eval", "--provider", "openrouter", "--model", "a", "--model", "b", "--suite", "tools",
            "--scenario", "chat_only", "--trials", "3", "--out", str(tmp_path), "--json")  # fmt: skip
    model = ScriptedModel("Hello, friend.", repeat_last=True)
    with serve_in_thread(model) as url:
        first = tavernkit(*runs, "--base-url", url, "--max-requests", "4")
        assert (first.code, len(model.requests)) == (0, 4)
        summary = json.loads(first.out)
        assert (summary["overall"]["runs"], summary["missing"]) == (4, 2)
        assert "2 runs not made" in first.err
        second = tavernkit(*runs, "--base-url", url, "--resume", "--concurrency", "2")
    assert (second.code, len(model.requests)) == (0, 6)
    summary = json.loads(second.out)
    assert (summary["overall"]["runs"], summary["missing"]) == (6, 0)
    assert {numbers["runs"] for numbers in summary["models"].values()} == {3}


def test_eval_stops_when_its_tokens_are_used_up(tavernkit: Tavernkit) -> None:
    model = ScriptedModel("Hello, friend.", repeat_last=True)
    with serve_in_thread(model) as url:
        outcome = tavernkit(
            "eval", "--base-url", url, "--model", "a", "--suite", "tools", "--scenario", "chat_only",
            "--trials", "5", "--max-tokens", "1", "--json",
        )  # fmt: skip
    assert len(model.requests) == 1
    assert json.loads(outcome.out)["missing"] == 4


def test_eval_says_what_is_missing(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("eval", "--model", "my-model")
    assert outcome.code == 2
    assert "--provider NAME" in outcome.err


def test_a_new_chat_leaves_those_that_are_there_alone(
    tavernkit: Tavernkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for line in ("one", "two"):
        told = tavernkit("chat", CARD, "--model", "scripted", "--say", line, "--json")
        assert ChatFile.load(json.loads(told.out)["file"]).messages[1].mes == line
    assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == ["Aria 2.jsonl", "Aria.jsonl"]


def test_a_conversation_says_where_it_is_saved(tmp_path: Path) -> None:
    outcome = in_process("chat", CARD, "--model", "scripted", "--save", str(tmp_path / "a.jsonl"), stdin="Hi\n")
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
    command = ("eval", "--model", "scripted", "--suite", "tools", "--out", str(tmp_path), "--json")
    assert tavernkit(*command, "--scenario", "chat_only").code == 0
    refused = tavernkit(*command, "--scenario", "chat_only,happy_path")
    assert (refused.code, "--resume" in refused.err) == (2, True)
    (log,) = tmp_path.glob("part-*.jsonl")
    first = log.read_bytes()
    log.write_bytes(first + b'{"key":"0')  # as a kill leaves it
    outcome = tavernkit(*command, "--scenario", "chat_only,happy_path", "--resume")
    assert json.loads(outcome.out)["overall"]["runs"] == 2
    old, new = (path.read_bytes() for path in sorted(tmp_path.glob("part-*.jsonl")))
    assert old == first
    assert json.loads(new)["config"]["scenario"] == "happy_path"
    assert json.loads((tmp_path / "manifest.json").read_bytes())["counts"]["skipped"] == 1
    assert tavernkit("eval", "--model", "scripted", "--resume").code == 2


def test_a_message_is_sent_under_either_name(tavernkit: Tavernkit, tmp_path: Path) -> None:
    saved = tmp_path / "aria.jsonl"
    outcome = tavernkit(
        "chat", CARD, "--model", "scripted", "--reply", "Aria.", "--save", str(saved),
        "--message", "One?", "-m", "Two?",
    )  # fmt: skip
    assert (outcome.code, outcome.out) == (0, "Aria.\nAria.\n")
    assert [each.mes for each in ChatFile.load(saved).messages if each.is_user] == ["One?", "Two?"]


def test_a_chat_has_no_kind_of_generation(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("chat", CARD, "--model", "scripted", "--generation-type", "impersonate", "--say", "Hi")
    assert (outcome.code, "No such option: --generation-type" in outcome.err) == (2, True)


def test_the_nearest_provider_is_suggested(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("chat", CARD, "--model", "opnai:gpt-4o")
    assert (outcome.code, outcome.err) == (2, "error: no provider 'opnai': did you mean 'openai:gpt-4o'?\n")


def test_a_card_is_not_a_chat_to_continue(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("chat", CARD, "--chat", CARD, "--model", "scripted")
    assert (outcome.code, "is a card, not a chat" in outcome.err) == (2, True)


def test_a_failure_suggests_only_what_can_be_typed(tavernkit: Tavernkit, tmp_path: Path) -> None:
    saved = tmp_path / "aria.jsonl"
    outcome = tavernkit("chat", CARD, "--base-url", NO_MODEL, "--save", str(saved), "--say", "Hi")
    assert (outcome.code, "your message is kept" in outcome.err, "/regenerate" in outcome.err) == (4, True, False)
