"""Answers as JSON, files that do not fit, and options that change a build."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.terminal import BOOK, CARD, CHAT, Tavernkit, arguments_of


def test_build_as_json_can_tell_why_and_how_long(tavernkit: Tavernkit) -> None:
    told = json.loads(tavernkit("build", *arguments_of("--message", "Hi", "--json", "--explain", "--trace")).out)
    assert set(told) == {"payload", "explanation", "trace"}
    assert told["payload"][-2] == {"role": "user", "content": "Hi"}
    assert [step["name"] for step in told["trace"]["steps"]][-1] == "trimming"
    assert 0 < sum(step["duration_ms"] for step in told["trace"]["steps"]) <= told["trace"]["duration_ms"] + 1


def test_a_request_is_shown_as_it_would_be_sent(tavernkit: Tavernkit) -> None:
    request = json.loads(tavernkit("build", *arguments_of("--message", "Hi", "--request", "--json")).out)
    assert request["chat_completion_source"] == "openai"
    assert {"role": "user", "content": "Hi"} in request["messages"]


def test_the_clock_of_a_build_can_be_set(tavernkit: Tavernkit) -> None:
    build = ("build", CARD, "--message", "It is {{isodate}}.", "--json")
    assert "It is 2024-02-29." in tavernkit(*build, "--now", "2024-02-29T10:00:00").out


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
def test_what_does_not_fit_the_context_says_what_to_do(tavernkit: Tavernkit, platform: str) -> None:
    arguments = ("build", CARD, "--platform", platform, "--message", "Hi " * 400, "--json")
    small = tavernkit(*arguments, "--context-length", "300", "--response-length", "100")
    assert small.code == 3
    assert "--context-length" in small.err
    assert tavernkit(*arguments, "--context-length", "8000", "--response-length", "100").code == 0


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
def test_the_book_inside_a_card_is_a_book(tavernkit: Tavernkit, tmp_path: Path, platform: str) -> None:
    card = json.loads(Path(CARD).read_text(encoding="utf-8"))
    card["data"]["character_book"] = {
        "extensions": {},
        "entries": [
            {"keys": ["lamp"], "content": "The lamp is old.", "enabled": True, "insertion_order": 1, "extensions": {}}
        ],
    }
    other = tmp_path / "other.json"
    other.write_text(json.dumps(card), encoding="utf-8")
    build = ("build", CARD, "--platform", platform, "--message", "The lamp?", "--json")
    assert "The lamp is old." in tavernkit(*build, "--book", str(other)).out
    card["data"].pop("character_book")
    other.write_text(json.dumps(card), encoding="utf-8")
    refused = tavernkit(*build, "--book", str(other))
    assert (refused.code, "has no lore book" in refused.err) == (2, True)


def test_a_folder_where_a_file_should_be_is_named(tavernkit: Tavernkit, tmp_path: Path) -> None:
    outcome = tavernkit("build", CARD, "--message", "Hi", "--save", str(tmp_path))
    assert outcome.code == 2
    assert str(tmp_path) in outcome.err.replace("\n", "")


def test_a_book_is_not_overwritten_unless_told_to(tavernkit: Tavernkit, tmp_path: Path) -> None:
    target = tmp_path / "book.json"
    target.write_text("mine")
    assert tavernkit("lore", "convert", BOOK, str(target), "--to", "silly_tavern").code == 2
    assert target.read_text() == "mine"
    assert tavernkit("lore", "convert", BOOK, str(target), "--to", "silly_tavern", "--force").code == 0
    assert "Tidewatch" in target.read_text(encoding="utf-8")


def test_macros_and_cbs_answer_as_json(tavernkit: Tavernkit) -> None:
    told = json.loads(tavernkit("macros", "eval", "{{user}} {{nonsense::1}}", "--user", "Bo", "--json").out)
    assert told["text"] == "Bo {{nonsense::1}}"
    assert told["diagnostics"]
    assert json.loads(tavernkit("cbs", "eval", "{{user}}", "--user", "Bo", "--json").out)["text"] == "Bo"


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
def test_a_build_can_be_for_another_model(tavernkit: Tavernkit, platform: str) -> None:
    arguments = ("build", CARD, "--platform", platform, "--message", "Hi", "--model", "gpt-4o-mini", "--json")
    built = tavernkit(*arguments)
    assert built.code == 0, built.err
    assert json.loads(built.out)[-1]["role"] in ("user", "system")


def test_the_model_of_a_request_is_the_one_that_was_asked_for(tavernkit: Tavernkit) -> None:
    arguments = arguments_of("--message", "Hi", "--model", "gpt-4o-mini", "--request", "--json")
    assert json.loads(tavernkit("build", *arguments).out)["model"] == "gpt-4o-mini"


def test_a_long_reason_is_shown_whole(tavernkit: Tavernkit) -> None:
    shown = tavernkit("build", *arguments_of("--message", "The lamp of Tidewatch and the Grey Fleet at Hern?")).out
    flat = " ".join(shown.replace("│", " ").split())
    assert "↳ Shoals of Hern (key 'Hern')" in flat
    assert "The lamp (key 'lamp')" in flat


def test_the_list_of_functions_has_no_markup(tavernkit: Tavernkit) -> None:
    assert "``" not in tavernkit("cbs", "list").out
    functions = {each["name"]: each for each in json.loads(tavernkit("cbs", "list", "--json").out)["functions"]}
    assert functions["getvar"]["description"].endswith("null if it is not set.")
    assert "$$, $&, $` and $'" in functions["replace"]["description"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--request", "koboldcpp"], "--request koboldcpp is for --dialect text"),
        (["--request", "openai", "--platform", "risu_ai"], "use --request or --curl without 'openai'"),
        (["--base-url", "http://localhost:5001"], "--base-url is for --request SOURCE or --curl"),
    ],
)
def test_a_request_that_cannot_be_shown_is_refused(tavernkit: Tavernkit, words: list[str], said: str) -> None:
    outcome = tavernkit("build", CARD, "--message", "Hi", *words)
    assert (outcome.code, said in outcome.err) == (2, True)


def test_a_source_may_take_messages_and_text(tavernkit: Tavernkit) -> None:
    for dialect in ("openai", "text"):
        request = tavernkit("build", CARD, "--message", "Hi", "--request", "openrouter", "--dialect", dialect, "--json")
        assert json.loads(request.out)["url"].startswith("https://openrouter.ai/")


@pytest.mark.parametrize("option", ["--character", "--group", "--speaker"])
def test_options_of_an_installation_need_one(tavernkit: Tavernkit, option: str) -> None:
    outcome = tavernkit("build", CARD, option, "Bel")
    assert (outcome.code, f"{option} is for --from-sillytavern or --from-risuai" in outcome.err) == (2, True)


@pytest.mark.parametrize("option", ["--character", "--group"])
def test_studio_has_characters_to_choose_from_in_a_folder_only(tavernkit: Tavernkit, option: str) -> None:
    outcome = tavernkit("studio", CARD, option, "Bel", "--no-open")
    assert (outcome.code, f"{option} is for --from-sillytavern" in outcome.err) == (2, True)


@pytest.mark.parametrize("words", [["--book", BOOK], ["--user", "Ann"], ["--platform", "risu_ai"], ["-m", "Hi"]])
def test_studio_with_a_folder_refuses_what_the_folder_has(
    tavernkit: Tavernkit, tmp_path: Path, words: list[str]
) -> None:
    outcome = tavernkit("studio", "--from-sillytavern", str(tmp_path), *words, "--no-open")
    assert (outcome.code, "on the page" in outcome.err) == (2, True)


def test_a_chat_among_books_is_recognised(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("lore", "scan", BOOK, CHAT, "--text", "lamp")
    assert (outcome.code, outcome.err) == (2, f"error: {CHAT} is a chat, not a lore book: use --chat\n")


def test_a_folder_without_tests_is_named(tavernkit: Tavernkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "there is no test file (*.tavern.yaml) in '.'" in tavernkit("test").err


@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        (("build", "CARD", "--message", "Hi", "--json", "--save", "OUT.json"), "\\ud83d"),
        (("explain", "CARD", "--message", "Hi", "--json", "--html", "OUT.html"), "\ufffd"),
        (("lore", "convert", "CARD", "OUT.json", "--to", "silly_tavern"), "\\ud83d"),
        (("lore", "convert", "CARD", "OUT.json", "--to", "risu_ai"), "\\ud83d"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_half_a_character_can_be_written(
    tavernkit: Tavernkit, tmp_path: Path, arguments: tuple[str, ...], written: str
) -> None:
    card = json.loads(Path(CARD).read_text(encoding="utf-8"))
    entry = {"keys": ["Hi"], "content": "A lamp \ud83d.", "enabled": True, "insertion_order": 1, "extensions": {}}
    card["data"]["description"] = "Tall \ud83d."
    card["data"]["character_book"] = {"extensions": {}, "entries": [entry]}
    (tmp_path / "cut.json").write_text(json.dumps(card), encoding="utf-8")
    given = [each.replace("CARD", str(tmp_path / "cut.json")) for each in arguments]
    target = next(tmp_path / each for each in arguments if each.startswith("OUT"))
    outcome = tavernkit(*(str(target) if each == target.name else each for each in given))
    assert outcome.code in (0, 1), outcome.err
    assert written in target.read_text(encoding="utf-8")


def test_the_parts_of_a_card_with_half_a_character_are_valid_utf_8(tavernkit: Tavernkit, tmp_path: Path) -> None:
    card = json.loads(Path(CARD).read_text(encoding="utf-8"))
    card["data"]["description"] = "Tall \ud83d."
    (tmp_path / "cut.json").write_text(json.dumps(card), encoding="utf-8")
    assert tavernkit("card", "extract", str(tmp_path / "cut.json"), str(tmp_path / "parts")).code == 0
    parts = json.loads((tmp_path / "parts" / "card.json").read_text(encoding="utf-8"))
    assert parts["data"]["description"] == "Tall \ud83d."
