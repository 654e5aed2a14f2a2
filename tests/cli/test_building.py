"""``demo``, ``build`` and ``explain``."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

from tavernkit.risu_ai import Save
from tests.cli.terminal import BOOK, CARD, CHAT, PRESET, Tavernkit, Terminal, arguments_of

LAMP = "Who lit the lamp again?"


def test_the_demo_shows_both_programs_a_tool_turn_and_what_was_left_out() -> None:
    outcome = Terminal("demo").finish()
    assert outcome.code == 0
    parts = (
        "SillyTavern would send",
        "RisuAI would send",
        "Left out",
        "read_log",
        "lore",
        "door = barred",
        "/entries/3",
    )
    for part in (*parts, "tokens are cached", "What broke the cache"):
        assert part in outcome.out
    assert "█" in outcome.out
    assert "\x1b[" in outcome.out


def test_the_demo_as_json_is_the_same_every_time(tavernkit: Tavernkit) -> None:
    first, second = tavernkit("demo", "--json"), tavernkit("demo", "--json")
    assert first.out == second.out
    told = json.loads(first.out)
    assert told["tool_turn"]["requests"] == 2
    assert told["small_context"]["left_out"]
    assert told["conversation"]["lines"][2] == ["Ann", "The door is barred. And the Grey Fleet?"]
    assert told["conversation"]["variables"] == {"door": "barred"}
    assert told["conversation"]["source"] == "tidewatch.json /entries/3/content"
    assert 0 < told["conversation"]["cached"] < told["conversation"]["tokens"]
    assert {"history", "lore", "card"} <= set(told["risu_ai"]["tokens_by_source"])


def test_build_prints_messages_as_json(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("build", *arguments_of("--message", LAMP, "--json"))
    messages = json.loads(outcome.out)
    assert messages[0]["role"] == "system"
    assert messages[-2] == {"role": "user", "content": LAMP}
    assert any("The great lamp burns" in message["content"] for message in messages)


def test_build_takes_the_users_name_from_the_chat(tavernkit: Tavernkit) -> None:
    messages = json.loads(tavernkit("build", *arguments_of("--message", LAMP, "--json")).out)
    assert "Aria and Ann" in messages[0]["content"]


def test_a_new_chat_starts_with_the_greeting(tavernkit: Tavernkit) -> None:
    messages = json.loads(tavernkit("build", CARD, "--user", "Bo", "--message", "Hi", "--json").out)
    assert any(m["role"] == "assistant" and "You are wet, Bo" in m["content"] for m in messages)
    none = json.loads(tavernkit("build", CARD, "--greeting", "-1", "--message", "Hi", "--json").out)
    assert not any(m["role"] == "assistant" for m in none)
    assert tavernkit("build", CARD, "--greeting", "9", "--message", "Hi").code == 2


def test_a_greeting_sees_the_time_and_the_seed(tavernkit: Tavernkit, tmp_path: Path) -> None:
    data = {"name": "Aria", "first_mes": "It is {{isotime}}: {{roll:1d1000000}}."}
    card = tmp_path / "card.json"
    card.write_text(json.dumps({"spec": "chara_card_v2", "spec_version": "2.0", "data": data}), encoding="utf-8")
    options = ("build", str(card), "--message", "Hi", "--now", "2026-02-03T04:05:00", "--json", "--seed")
    first, again, other = (tavernkit(*options, seed).out for seed in "112")
    assert "It is 04:05: " in first
    assert first == again != other


def test_risuai_takes_the_greeting_that_is_asked_for(tavernkit: Tavernkit) -> None:
    def built(greeting: str) -> str:
        return tavernkit("build", CARD, "--platform", "risu_ai", "--greeting", greeting, "--json").out

    assert "The door opens" in built("0")
    assert "Third ship" in built("1")
    for wrong in ("2", "-1"):
        assert tavernkit("build", CARD, "--platform", "risu_ai", "--greeting", wrong).code == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--module", "m.risum"], "--module is for --platform risu_ai"),
        (["--from-risuai", "db.json", "--platform", "silly_tavern"], "--from-risuai is for --platform risu_ai"),
        (["--platform", "risu_ai", "--allow-scripts"], "--allow-scripts is for --platform silly_tavern"),
        (
            ["--from-sillytavern", "data", "--from-risuai", "db.json"],
            "--from-sillytavern is for --platform silly_tavern",
        ),
        (["--instruct", "i.json"], "--instruct is for --dialect text"),
    ],
)
def test_options_that_would_be_left_out_are_refused(tavernkit: Tavernkit, arguments: list[str], told: str) -> None:
    outcome = tavernkit("build", CARD, *arguments)
    assert outcome.code == 2
    assert told in " ".join(outcome.err.replace("│", " ").split())


@pytest.mark.parametrize("dialect", ["anthropic", "google", "cohere", "mistral"])
def test_build_speaks_dialects(tavernkit: Tavernkit, dialect: str) -> None:
    outcome = tavernkit("build", *arguments_of("--message", LAMP, "--dialect", dialect, "--json"))
    assert outcome.code == 0
    assert "lamp" in json.dumps(json.loads(outcome.out))


def test_build_makes_one_text_for_models_without_chat(tavernkit: Tavernkit, tmp_path: Path) -> None:
    instruct = tmp_path / "chatml.json"
    instruct.write_text(
        json.dumps({"input_sequence": "<|im_start|>user", "output_sequence": "<|im_start|>assistant", "wrap": True}),
        encoding="utf-8",
    )
    arguments = ["build", CARD, "--dialect", "text", "--instruct", str(instruct), "--message", "Hi there"]
    told = json.loads(tavernkit(*arguments, "--json").out)
    assert "<|im_start|>user\nHi there" in told["prompt"]
    assert told["stop_sequences"]
    assert "<|im_start|>user\nHi there" in tavernkit(*arguments).out
    risu = json.loads(tavernkit("build", CARD, "-p", "risu_ai", "--dialect", "text", "-m", "Hi there", "--json").out)
    assert "keeps the lighthouse" in risu["prompt"]


def test_build_explains_traces_and_saves(tavernkit: Tavernkit, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    outcome = tavernkit("build", *arguments_of("-m", LAMP, "--explain", "--trace", "--save", str(plan)))
    assert outcome.code == 0
    assert "plan_assembly" in outcome.out
    assert "in the preset's prompt list" in outcome.out
    saved = json.loads(plan.read_text(encoding="utf-8"))
    assert saved["blocks"]
    assert saved["schema_version"] == 1


def test_build_for_risuai_from_the_same_files(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("build", *arguments_of("-m", LAMP, "--platform", "risu_ai", "--json"))
    assert outcome.code == 0
    messages = json.loads(outcome.out)
    assert any("The great lamp burns" in message["content"] for message in messages)
    assert messages[-1]["content"] == LAMP


def test_the_request_of_sillytavern_can_be_had(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("build", *arguments_of("-m", LAMP, "--request", "--json"))
    assert json.loads(outcome.out)["max_completion_tokens"] == 400


def test_the_request_that_reaches_a_source_is_shown_without_its_key(
    tavernkit: Tavernkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-or-secret")
    outcome = tavernkit("build", *arguments_of("-m", LAMP, "--request", "openrouter", "--json"))
    shown = json.loads(outcome.out)
    assert (shown["method"], shown["url"]) == ("POST", "https://openrouter.ai/api/v1/chat/completions")
    assert shown["headers"]["authorization"] == "Bearer <key>"
    assert LAMP in str(shown["body"]["messages"])
    assert "sk-or-secret" not in outcome.out + outcome.err


def test_a_request_may_be_had_as_a_curl_command(tavernkit: Tavernkit) -> None:
    command = tavernkit("build", *arguments_of("-m", "It's me", "--request", "makersuite", "--curl")).out
    first, *rest = command.splitlines()
    assert first.startswith("curl -X POST 'https://generativelanguage.googleapis.com/v1beta/models/")
    assert '?key=\'"$GEMINI_API_KEY"' in first
    words = shlex.split(" ".join(line.rstrip("\\") for line in rest))
    assert "It's me" in str(json.loads(words[words.index("--data-raw") + 1]))
    own = tavernkit("build", *arguments_of("-m", LAMP, "--curl")).out
    assert "https://api.openai.com/v1/chat/completions" in own
    assert "'authorization: Bearer '\"$OPENAI_API_KEY\"" in own


def test_the_request_to_a_server_of_ones_own(tavernkit: Tavernkit, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["build", CARD, "-m", LAMP, "-d", "text", "--base-url", "http://localhost:5001", "--json"]
    shown = json.loads(tavernkit(*arguments, "--request", "koboldcpp").out)
    assert shown["url"] == "http://127.0.0.1:5001/v1/completions"
    assert shown["headers"] == {"content-type": "application/json"}
    assert len(shown["body"]) > 45
    monkeypatch.setenv("KOBOLDCPP_API_KEY", "k-1")
    shown = json.loads(tavernkit(*arguments, "--request", "koboldcpp").out)
    assert shown["headers"]["authorization"] == "Bearer <key>"
    refused = tavernkit(*arguments, "--request", "horde")
    assert (refused.code, "unknown text backend 'horde'" in refused.err) == (2, True)


def test_what_a_source_does_not_get_is_named(tavernkit: Tavernkit, tmp_path: Path) -> None:
    preset = json.loads(Path(PRESET).read_text("utf-8")) | {"top_k": 40, "min_p": 0.2}
    (tmp_path / "p.json").write_text(json.dumps(preset), encoding="utf-8")
    outcome = tavernkit("build", CARD, "--preset", str(tmp_path / "p.json"), "--request", "groq", "--json")
    assert "groq does not get top_k, min_p: left out of the request" in outcome.err


def test_a_sillytavern_folder_is_read_as_it_is(tavernkit: Tavernkit, tmp_path: Path) -> None:
    for folder in ("characters", "chats/aria", "worlds", "OpenAI Settings"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "characters/aria.json").write_bytes(Path(CARD).read_bytes())
    (tmp_path / "chats/aria/one.jsonl").write_bytes(Path(CHAT).read_bytes())
    (tmp_path / "worlds/tidewatch.json").write_bytes(Path(BOOK).read_bytes())
    (tmp_path / "OpenAI Settings/mine.json").write_bytes(Path(PRESET).read_bytes())
    (tmp_path / "settings.json").write_text(
        json.dumps(
            {
                "username": "Ann",
                "world_info_settings": {
                    "world_info": {"globalSelect": ["tidewatch"]},
                    "world_info_depth": 2,
                    "world_info_budget": 25,
                },
            }
        ),
        encoding="utf-8",
    )
    arguments = ["build", "--from-sillytavern", str(tmp_path), "--preset", "mine", "-m", LAMP, "--json"]
    outcome = tavernkit(*arguments, "--character", "aria", "--chat", "one")
    assert outcome.code == 0, outcome.err
    assert "The great lamp burns" in outcome.out
    assert "Grey sails" in outcome.out
    missing = tavernkit(*arguments)
    assert missing.code == 2
    assert "aria.json" in missing.err
    unknown = tavernkit(*arguments, "--character", "aria", "--chat", "two")
    assert (unknown.code, "has no chat 'two': choose --chat from one" in unknown.err) == (2, True)


@pytest.mark.parametrize("name", ["keeper", "Keeper", "KEEPER.json", "Keeper.json", "Aria"])
def test_a_character_of_an_installation_is_found_by_any_form_of_its_name(
    tavernkit: Tavernkit, tmp_path: Path, name: str
) -> None:
    (tmp_path / "characters").mkdir()
    shutil.copy(CARD, tmp_path / "characters" / "Keeper.json")
    outcome = tavernkit("build", "--from-sillytavern", str(tmp_path), "--character", name, "-m", "Hello", "--json")
    assert outcome.code == 0, outcome.err
    refused = tavernkit("build", "--from-sillytavern", str(tmp_path), "--character", "Bo", "-m", "Hello")
    assert (refused.code, "there is no character 'Bo': choose one of Keeper.json" in refused.err) == (2, True)


def test_the_chat_used_last_is_opened_or_one_begins_with_the_greeting(tavernkit: Tavernkit, tmp_path: Path) -> None:
    (tmp_path / "characters").mkdir()
    shutil.copy(CARD, tmp_path / "characters" / "Aria.json")
    arguments = ["build", "--from-sillytavern", str(tmp_path), "--character", "Aria", "-m", "Hello", "--json"]
    greeting = json.loads(Path(CARD).read_text(encoding="utf-8"))["data"]["first_mes"][:40]
    assert greeting in str([message["content"] for message in json.loads(tavernkit(*arguments).out)])
    chats = tmp_path / "chats" / "Aria"
    chats.mkdir(parents=True)
    chat = '{"chat_metadata": {}}\r\n{"name": "Ann", "is_user": true, "mes": "Grey sails."}\r\n'
    (chats / "one.jsonl").write_text(chat, encoding="utf-8", newline="")
    texts = [message["content"] for message in json.loads(tavernkit(*arguments).out)]
    assert "Grey sails." in str(texts)
    assert greeting not in str(texts)


def test_a_group_of_a_sillytavern_folder(tavernkit: Tavernkit, tmp_path: Path) -> None:
    for folder in ("characters", "groups", "group chats"):
        (tmp_path / folder).mkdir()
    for name in ("Aria", "Bo"):
        card = json.loads(Path(CARD).read_text(encoding="utf-8"))
        card["data"]["name"] = name
        (tmp_path / "characters" / f"{name}.json").write_text(json.dumps(card), encoding="utf-8")
    group = {"id": "1", "name": "Two", "members": ["Aria.json", "Bo.json"], "chat_id": "c"}
    (tmp_path / "groups/1.json").write_text(json.dumps(group), encoding="utf-8")
    (tmp_path / "group chats/c.jsonl").write_text('{"chat_metadata": {}}', encoding="utf-8")
    outcome = tavernkit(
        "build", "--from-sillytavern", str(tmp_path), "--group", "1", "--speaker", "Bo.json", "-m", "Hello", "--json"
    )
    assert outcome.code == 0, outcome.err
    assert "Bo keeps the lighthouse" in outcome.out
    named = tavernkit("build", "--from-sillytavern", str(tmp_path), "--group", "Two", "--speaker", "Bo.json", "--json")
    assert "Bo keeps the lighthouse" in named.out
    missing = tavernkit("build", "--from-sillytavern", str(tmp_path), "--group", "Three")
    assert (missing.code, "Two" in missing.err) == (2, True)


def test_an_installation_of_several_users_names_their_folders(tavernkit: Tavernkit, tmp_path: Path) -> None:
    for user in ("ann", "default-user"):
        (tmp_path / "data" / user).mkdir(parents=True)
        (tmp_path / "data" / user / "settings.json").write_text("{}", encoding="utf-8")
    outcome = tavernkit("build", "--from-sillytavern", str(tmp_path), "--character", "Aria", "-m", "Hi")
    assert outcome.code == 2
    assert "default-user" in outcome.err
    assert "ann" in outcome.err


def test_scripts_of_a_card_run_only_when_they_are_allowed(tavernkit: Tavernkit, tmp_path: Path) -> None:
    script = {
        "scriptName": "s",
        "findRegex": "/lamp/g",
        "replaceString": "LANTERN",
        "placement": [1],
        "promptOnly": True,
    }
    card = json.loads(Path(CARD).read_text(encoding="utf-8"))
    card["data"]["extensions"]["regex_scripts"] = [script]
    path, own = tmp_path / "scripted.json", tmp_path / "script.json"
    path.write_text(json.dumps(card), encoding="utf-8")
    own.write_text(json.dumps(script), encoding="utf-8")
    arguments = ["-m", "The lamp?", "--json"]
    assert "LANTERN" not in tavernkit("build", str(path), *arguments).out
    assert "LANTERN" in tavernkit("build", str(path), *arguments, "--allow-scripts").out
    assert "LANTERN" in tavernkit("build", CARD, *arguments, "--regex-script", str(own)).out


def test_a_risuai_database_is_read_as_it_is(tavernkit: Tavernkit, tmp_path: Path) -> None:
    database = {
        "username": "Ann",
        "characters": [
            {
                "name": "Bel",
                "chaId": "1",
                "desc": "Bel keeps bees.",
                "firstMessage": "Hm?",
                "chats": [{"name": "first", "message": [{"role": "user", "data": "Hello, Bel."}]}],
                "chatPage": 0,
            }
        ],
    }
    path = tmp_path / "database.json"
    path.write_text(json.dumps(database), encoding="utf-8")
    arguments = ["build", "--from-risuai", str(path), "--json"]
    outcome = tavernkit(*arguments, "--character", "Bel")
    assert outcome.code == 0, outcome.err
    assert "keeps bees" in outcome.out
    assert "Hello, Bel." in outcome.out
    assert "Bel" in tavernkit(*arguments).err
    assert "choose one of first" in tavernkit(*arguments, "--character", "Bel", "--chat", "second").err


@pytest.mark.parametrize("name", ["backup.bin", "database.bin"])
@pytest.mark.parametrize("command", ["build", "explain"])
def test_a_risuai_save_is_read_in_every_form(tavernkit: Tavernkit, tmp_path: Path, name: str, command: str) -> None:
    character = {"name": "Bel", "desc": "Bel keeps bees.", "chats": [{"name": "first", "message": []}]}
    path = tmp_path / name
    Save.from_json({"username": "Ann", "characters": [character]}).save(path)
    arguments = [command, "--from-risuai", str(path), "--character", "Bel", "--json"]
    outcome = tavernkit(*arguments, "--message", "Hello, {{char}}.")
    assert outcome.code == 0, outcome.err
    assert "keeps bees" in outcome.out
    assert "Hello, Bel." in outcome.out
    assert "says nothing" in tavernkit(*arguments).out


def test_presets_and_personas_of_a_save_are_chosen_by_name(tavernkit: Tavernkit, tmp_path: Path) -> None:
    database = {
        "username": "Ann",
        "mainPrompt": "Live.",
        "botPresets": [{"name": "one", "mainPrompt": "Stale."}, {"name": "two", "mainPrompt": "Second for {{user}}."}],
        "personas": [{"id": "a", "name": "Ann"}, {"id": "b", "name": "Bo", "personaPrompt": "Bo sails."}],
        "characters": [{"name": "Bel", "desc": "Bel keeps bees."}],
    }
    path = tmp_path / "backup.bin"
    Save.from_json(database).save(path)
    arguments = ["build", "--from-risuai", str(path), "--character", "Bel", "--json", "-m", "Hello"]
    assert "Live." in tavernkit(*arguments).out
    chosen = tavernkit(*arguments, "--preset", "two", "--user", "Bo").out
    assert "Second for Bo." in chosen
    assert "Bo sails." in chosen
    renamed = tavernkit(*arguments, "--preset", "two", "--user", "Cy").out
    assert "Second for Cy." in renamed
    assert "choose one of one, two" in tavernkit(*arguments, "--preset", "three").err


def test_a_file_that_is_no_save_is_named_with_what_to_export(tavernkit: Tavernkit, tmp_path: Path) -> None:
    path = tmp_path / "card.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n")
    outcome = tavernkit("build", "--from-risuai", str(path), "--character", "Bel")
    assert outcome.code != 0
    assert "Save Local Backup" in " ".join(outcome.err.split())


def test_explain_as_table_tree_and_json(tavernkit: Tavernkit) -> None:
    table = tavernkit("explain", *arguments_of("-m", LAMP))
    assert "the character's description" in table.out
    tree = tavernkit("explain", *arguments_of("-m", LAMP, "--tree"))
    assert "├──" in tree.out
    told = json.loads(tavernkit("explain", *arguments_of("-m", LAMP, "--json")).out)
    assert sum(told["tokens_by_source"].values()) > 500
    assert told["blocks"][0]["family"] == "preset"


def test_explain_tells_why_lore_fired_or_not(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("explain", *arguments_of("-m", LAMP, "--lore"))
    assert "key 'lamp' found" in outcome.out
    assert "beyond its scan depth" in " ".join(outcome.out.split())


def test_what_does_not_fit_is_told(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("explain", *arguments_of("-m", LAMP, "--context-length", "1000"))
    assert "does not fit the token budget" in outcome.out


def test_the_page_is_written(tavernkit: Tavernkit, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    outcome = tavernkit("explain", *arguments_of("-m", LAMP, "--html", str(page)))
    assert outcome.code == 0
    assert "The report is in" in outcome.out
    assert LAMP in page.read_text(encoding="utf-8")


def test_strict_makes_a_warning_an_error(tavernkit: Tavernkit, tmp_path: Path) -> None:
    card = json.loads(Path(CARD).read_text(encoding="utf-8"))
    card["data"]["description"] = "{{nosuchmacro}}"
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(card), encoding="utf-8")
    assert tavernkit("build", str(path), "-m", "hi", "--json").code == 0
    strict = tavernkit("build", str(path), "-m", "hi", "--json", "--strict")
    assert strict.code == 2
    assert "nosuchmacro" in strict.err


@pytest.mark.parametrize(("columns", "headings"), [("40", "source"), ("80", "why"), ("120", "text")])
def test_a_narrow_terminal_gets_fewer_columns(
    tavernkit: Tavernkit, monkeypatch: pytest.MonkeyPatch, columns: str, headings: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    shown = tavernkit("explain", *arguments_of("--message", "The lamp?")).out.splitlines()
    assert shown[0].split()[-1] == headings
    assert max(map(len, shown)) <= int(columns)
    lore = tavernkit("explain", *arguments_of("--message", "The lamp?", "--lore")).out.splitlines()
    assert ("id" in lore[0].split()) is (columns != "40")


def test_explain_says_where_words_come_from(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("explain", *arguments_of("--message", LAMP, "--where", "The great lamp burns"))
    assert outcome.code == 0
    assert "/entries/1/content" in outcome.out
    places = json.loads(tavernkit("explain", *arguments_of("--message", LAMP, "--where", LAMP, "--json")).out)
    assert [span["source"] for span in places["places"][0]["spans"]] == ["message:"]
    missing = tavernkit("explain", *arguments_of("--where", "no such words"))
    assert missing.code == 1
    assert "is not in the prompt" in missing.out


def test_explain_says_why_words_of_a_book_are_not_in_the_prompt(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("explain", *arguments_of("--message", LAMP, "--where", "no dragons at"))
    assert outcome.code == 1
    assert "/entries/7/content" in outcome.out
    assert "no key was found ('dragon')" in " ".join(outcome.out.split())
    told = json.loads(tavernkit("explain", *arguments_of("--where", "no dragons at", "--json")).out)
    assert (told["places"], told["left_out"][0]["tokens"]) == ([], 0)


def test_explain_tells_tokens_of_every_source(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("explain", *arguments_of("--message", LAMP, "--tokens"))
    assert "/data/description" in outcome.out
    told = json.loads(tavernkit("explain", *arguments_of("--message", LAMP, "--json")).out)
    costs = told["source_map"]["costs"]
    assert sum(cost["tokens"] for cost in costs) == sum(block["tokens"] for block in told["blocks"])
    assert any(row.get("tokens") for row in told["lore"] if row["active"])


def test_explain_says_which_tokenizer_stood_in(tavernkit: Tavernkit, tmp_path: Path) -> None:
    preset = tmp_path / "preset.json"
    preset.write_text(json.dumps({"chat_completion_source": "cohere", "cohere_model": "command-r"}))
    asked = ["explain", str(CARD), "--preset", str(preset), "--message", "Hi"]
    note = "qwen3 is used instead of command-r: counts may be off by 10 % on average"
    assert note in " ".join(tavernkit(*asked).out.split())
    assert json.loads(tavernkit(*asked, "--json").out)["counting_note"].startswith(note)
    tavernkit(*asked, "--html", str(tmp_path / "page.html"))
    assert note in (tmp_path / "page.html").read_text("utf-8")


def test_risuai_runs_regex_scripts_of_its_own_format(tavernkit: Tavernkit, tmp_path: Path) -> None:
    script = {"comment": "loud", "in": "lamp", "out": "LAMP", "type": "editprocess"}
    for number, content in enumerate(({"type": "regex", "data": [script]}, [script], script)):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps(content))
        arguments = ("--platform", "risu_ai", "--message", "the lamp", "--regex-script", str(path))
        assert "the LAMP" in tavernkit("build", CARD, *arguments).out
