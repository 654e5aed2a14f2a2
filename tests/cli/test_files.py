"""``card``, ``lore``, ``lint``, ``macros``, ``cbs``, ``tokens`` and ``serve``."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path

import pytest

import tavernkit as tk
from tests.cli.terminal import BOOK, CARD, CHAT, EXAMPLES, PRESET, Tavernkit, in_process


def test_card_show(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("card", "show", CARD)
    assert outcome.code == 0
    assert "Aria" in outcome.out
    assert "description" in outcome.out
    assert json.loads(tavernkit("card", "show", CARD, "--json").out)["spec"] == "chara_card_v3"


def test_card_convert_and_back(tavernkit: Tavernkit, tmp_path: Path) -> None:
    picture, archive = tmp_path / "aria.png", tmp_path / "aria.charx"
    assert tavernkit("card", "convert", CARD, str(picture)).code == 0
    assert tk.load(picture).character.name == "Aria"
    assert tavernkit("card", "convert", str(picture), str(archive), "--json").code == 0
    assert tk.load(archive).character.first_mes == tk.load(CARD).character.first_mes


def test_card_convert_does_not_replace_files_unasked(tavernkit: Tavernkit, tmp_path: Path) -> None:
    target = tmp_path / "aria.json"
    target.write_text("precious", encoding="utf-8")
    assert tavernkit("card", "convert", CARD, str(target)).code == 2
    assert target.read_text(encoding="utf-8") == "precious"
    assert tavernkit("card", "convert", CARD, str(target), "--force").code == 0


def test_card_convert_tells_what_an_older_version_cannot_hold(tavernkit: Tavernkit, tmp_path: Path) -> None:
    card = json.loads(Path(CARD).read_text(encoding="utf-8"))
    card["data"]["nickname"] = "Ari"
    path = tmp_path / "nick.json"
    path.write_text(json.dumps(card), encoding="utf-8")
    outcome = tavernkit("card", "convert", str(path), str(tmp_path / "old.json"), "--version", "v2")
    assert "nickname" in outcome.err


def test_card_extract_and_embed(tavernkit: Tavernkit, tmp_path: Path) -> None:
    picture = tmp_path / "aria.png"
    tavernkit("card", "convert", CARD, str(picture))
    told = json.loads(tavernkit("card", "extract", str(picture), str(tmp_path / "parts"), "--json").out)
    assert set(told["files"]) == {"card.json", "picture.png"}
    again = tmp_path / "again.png"
    outcome = tavernkit("card", "embed", CARD, str(tmp_path / "parts/picture.png"), str(again))
    assert outcome.code == 0, outcome.err
    assert tk.load(again).character.name == "Aria"


@pytest.mark.parametrize(
    "arguments",
    [
        "build aria.json --save ./aria.json --json",
        "build aria.json --book tidewatch.json --save tidewatch.json",
        "build aria.json --preset preset.json --save preset.json",
        "explain aria.json --chat chat.jsonl --html chat.jsonl",
        "cache aria.json --chat chat.jsonl --html aria.json",
        "diff aria.json aria.json --html aria.json",
        "lore coverage tidewatch.json --chat . --html chat.jsonl",
        "lore index tidewatch.json --output tidewatch.json",
        "chat aria.json --model scripted --say Hi --save aria.json",
        "chat aria.json --model scripted --say Hi --save aria.json --platform risu_ai",
    ],
)
def test_no_command_overwrites_a_file_it_reads(
    tavernkit: Tavernkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str
) -> None:
    for path in map(Path, (CARD, BOOK, PRESET, CHAT)):
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert tavernkit(*arguments.split()).code == 2
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_extracting_replaces_files_only_when_told_to(tavernkit: Tavernkit, tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text("mine")
    outcome = tavernkit("card", "extract", CARD, str(tmp_path))
    assert (outcome.code, "use --force to overwrite it" in outcome.err) == (2, True)
    assert (tmp_path / "card.json").read_text() == "mine"
    assert tavernkit("card", "extract", CARD, str(tmp_path), "--force").code == 0
    assert "Aria" in (tmp_path / "card.json").read_text()


def test_extracted_assets_stay_in_their_folder(tavernkit: Tavernkit, tmp_path: Path) -> None:
    card = json.loads(Path(CARD).read_text(encoding="utf-8"))
    card["data"]["assets"] = [
        {"type": "icon", "name": "../../evil", "ext": "../png", "uri": "data:image/png;base64,aGVsbG8="}
    ]
    path = tmp_path / "evil.json"
    path.write_text(json.dumps(card), encoding="utf-8")
    parts = tmp_path / "a" / "b" / "parts"
    outcome = tavernkit("card", "extract", str(path), str(parts))
    assert outcome.code == 0, outcome.err
    written = [each for each in tmp_path.rglob("*") if each.is_file() and each != path]
    assert len(written) > 1
    assert all(parts in each.parents for each in written)


def test_lore_scan_for_both_programs(tavernkit: Tavernkit) -> None:
    rows = json.loads(tavernkit("lore", "scan", BOOK, "--text", "Who lit the lamp?", "--json").out)["entries"]
    assert {row["title"] for row in rows if row["active"]} >= {"The lamp", "House style"}
    assert all(row["reason"] for row in rows)
    rows = json.loads(tavernkit("lore", "scan", BOOK, "-p", "risu_ai", "--text", "the lamp", "--json").out)["entries"]
    assert "The lamp" in {row["title"] for row in rows if row["active"]}


def test_lore_scan_reads_a_chat(tavernkit: Tavernkit) -> None:
    near = tavernkit("lore", "scan", BOOK, "--chat", CHAT, "--depth", "1", "--json")
    far = tavernkit("lore", "scan", BOOK, "--chat", CHAT, "--depth", "4", "--json")
    active = [{row["title"] for row in json.loads(each.out)["entries"] if row["active"]} for each in (near, far)]
    assert "The storm glass" not in active[0]
    assert "The storm glass" in active[1]
    assert tavernkit("lore", "scan", BOOK).code == 2


def test_lore_test_fails_when_an_entry_does_not_fire(tavernkit: Tavernkit) -> None:
    arguments = ["lore", "test", BOOK, "--text", "the lamp"]
    assert tavernkit(*arguments, "--expect", "The lamp", "--reject", "Dragons").code == 0
    failed = tavernkit(*arguments, "--expect", "Dragons")
    assert failed.code == 1
    assert "FAILED" in failed.out
    assert tavernkit(*arguments, "--expect", "Nobody").code == 1
    assert tavernkit(*arguments).code == 2


def test_lore_convert_round_trip(tavernkit: Tavernkit, tmp_path: Path) -> None:
    risu, world = tmp_path / "risu.json", tmp_path / "world.json"
    assert tavernkit("lore", "convert", BOOK, str(risu), "--to", "risu_ai").code == 1  # it has settings RisuAI lacks
    assert json.loads(risu.read_text(encoding="utf-8"))["type"] == "risu"
    assert tavernkit("lore", "convert", str(risu), str(world), "--to", "silly_tavern").code == 0
    rows = json.loads(tavernkit("lore", "scan", str(world), "--text", "the lamp", "--json").out)["entries"]
    assert any(row["active"] and "lamp" in row["keys"] for row in rows)


@pytest.mark.parametrize("spelling", ["risu_ai", "risuai", "risu-ai", "RisuAI"])
def test_programs_may_be_spelled_in_several_ways(tavernkit: Tavernkit, tmp_path: Path, spelling: str) -> None:
    told = tavernkit("lore", "convert", BOOK, str(tmp_path / "lore.json"), "--to", spelling, "--json")
    assert json.loads(told.out)["format"] == "risu_ai"
    assert tavernkit("lore", "scan", BOOK, "-p", spelling, "--text", "the lamp").code == 0


def test_other_programs_are_refused_by_naming_the_known_ones(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("lore", "scan", BOOK, "-p", "agnai", "--text", "the lamp")
    assert outcome.code == 2
    assert "silly_tavern" in outcome.err


def test_a_book_may_be_written_as_cards_hold_it(tavernkit: Tavernkit, tmp_path: Path) -> None:
    target = tmp_path / "book.json"
    assert tavernkit("lore", "convert", BOOK, str(target), "--to", "character_book").code == 0
    assert isinstance(json.loads(target.read_text(encoding="utf-8"))["entries"], list)


def test_macros(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("macros", "eval", "{{user}} meets {{char}}", "--user", "Ann", "--card", CARD)
    assert outcome.out == "Ann meets Aria\n"
    assert (
        tavernkit("macros", "eval", "{{roll::1d20}}", "--seed", "1").out
        == tavernkit("macros", "eval", "{{roll::1d20}}", "--seed", "1").out
    )
    assert tavernkit("macros", "eval", "{{getvar::hp}}", "--var", "hp=7").out == "7\n"
    assert tavernkit("macros", "eval", "x", "--var", "hp").code == 2
    unknown = tavernkit("macros", "eval", "{{nope}}", "--strict")
    assert (unknown.code, unknown.out) == (1, "{{nope}}\n")
    assert "nope" in unknown.err
    names = {each["name"] for each in json.loads(tavernkit("macros", "list", "--json").out)["macros"]}
    assert {"user", "roll", "getvar"} <= names
    assert "setvar" in tavernkit("macros", "list", "variable").out


def test_macros_see_the_time_they_are_given(tavernkit: Tavernkit) -> None:
    assert tavernkit("macros", "eval", "{{isodate}}", "--now", "2026-01-05").out == "2026-01-05\n"


def test_cbs(tavernkit: Tavernkit) -> None:
    text = "{{#if {{? {{getvar::hp}} > 3}}}}alive{{/if}}"
    assert tavernkit("cbs", "eval", text, "--var", "hp=7").out == "alive\n"
    assert tavernkit("cbs", "eval", text, "--var", "hp=1").out == "\n"
    assert json.loads(tavernkit("cbs", "eval", "{{char}}", "--card", CARD, "--json").out)["text"] == "Aria"
    assert tavernkit("cbs", "eval", "{{nosuch}}", "--strict").code == 1
    assert tavernkit("cbs", "eval", "{{? 1 + {{toggle}}}}", "--toggle", "odd").code == 2


@pytest.mark.parametrize(("command", "kind"), [("macros", "unknown_macro"), ("cbs", "kept")])
def test_what_is_wrong_with_a_text_is_told_in_the_same_form(tavernkit: Tavernkit, command: str, kind: str) -> None:
    assert tavernkit(command, "eval").code == 2
    told = json.loads(tavernkit(command, "eval", "a {{nosuch}}", "--json").out)
    assert told["text"] == "a {{nosuch}}"
    assert [(each["kind"], each["position"]) for each in told["diagnostics"]] == [(kind, 2)]
    assert "getvar" in tavernkit("cbs", "list", "getvar").out


def test_tokens(tavernkit: Tavernkit, tmp_path: Path) -> None:
    told = json.loads(tavernkit("tokens", "--text", "Hello, keeper.", "--model", "gpt-4o", "--show", "--json").out)
    assert told["texts"][0]["tokens"] == tk.count_tokens("Hello, keeper.", "gpt-4o")
    assert len(told["texts"][0]["tokenization"]["offsets"]) == told["texts"][0]["tokens"]
    path = tmp_path / "note.txt"
    path.write_text("one two", encoding="utf-8")
    assert "2" in tavernkit("tokens", str(path)).out
    assert "Hello|" in tavernkit("tokens", "--text", "Hello keeper", "--show").out
    assert "stdin" in in_process("tokens", stdin="one two").out


def test_lint_is_content_with_the_examples(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("lint", str(EXAMPLES), "--strict")
    assert outcome.code == 0, outcome.out


def test_lint_finds_and_fixes(tavernkit: Tavernkit, tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    entry = {"uid": 0, "key": ["lamp ", "lamp"], "content": "x {{userr}}", "position": 0, "comment": "L"}
    never = {"uid": 1, "key": [], "content": "y", "position": 0, "useProbability": True}
    path.write_text(json.dumps({"entries": {"0": entry, "1": never}}), encoding="utf-8")
    outcome = tavernkit("lint", str(path))
    assert outcome.code == 1
    assert "did you mean {{user}}?" in outcome.out
    told = json.loads(tavernkit("lint", str(path), "--fix", "--json").out)["files"][0]
    assert told["fixed"] is True
    assert json.loads(path.read_text(encoding="utf-8"))["entries"]["0"]["key"] == ["lamp"]
    assert not [each for each in told["findings"] if each["fixable"]]
    assert tavernkit("lint", "nowhere.json").code == 2


def test_a_server_that_cannot_start_says_where_it_was_to_listen(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        outcome = in_process("serve", "--data", str(tmp_path / "data"), "--port", port)
    assert (outcome.code, f"cannot listen on 127.0.0.1:{port}" in outcome.err) == (2, True)


def test_a_server_wants_a_folder_for_data_and_a_file_for_settings(tavernkit: Tavernkit, tmp_path: Path) -> None:
    assert "--data is a folder" in tavernkit("serve", "--data", CARD).err
    assert "there is no file" in tavernkit("serve", "--config", str(tmp_path)).err


def test_a_chat_is_nothing_to_check(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("lint", CHAT)
    assert (outcome.code, "is a chat" in outcome.err) == (2, True)


def test_one_thing_is_counted_as_one(tavernkit: Tavernkit) -> None:
    assert tavernkit("macros", "list", "{{roll").out.endswith("0 macros\n")
    assert tavernkit("macros", "list", "sum of dice").out.endswith("1 macro\n")


def test_tokenizer_files_are_checked_and_fetched(
    tavernkit: Tavernkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tavernkit.vibe_tavern import _tokenizer_files as tokenizer_files

    broken = tmp_path / "glm-4.7" / "tokenizer.json"
    broken.parent.mkdir()
    broken.write_text("{}")
    checked = tavernkit("tokenizers", "check", "glm-4.7", "qwen3", "--root", str(tmp_path), "--json")
    assert checked.code == 1
    assert [one["status"] for one in json.loads(checked.out)["tokenizers"]] == ["missing", "invalid"]

    def refuse(url: str, headers: object) -> tokenizer_files.Fetched:
        raise OSError("the hub is out of reach")

    monkeypatch.setattr(tokenizer_files, "fetch_from_hub", refuse)
    failed = tavernkit("tokenizers", "fetch", "qwen3", "--root", str(tmp_path))
    assert failed.code == 1
    assert "out of reach" in failed.out
    assert tavernkit("tokenizers", "fetch", "qwen").code == 2


def test_models_are_audited(tavernkit: Tavernkit, tmp_path: Path) -> None:
    report = json.loads(
        tavernkit("tokenizers", "audit", "qwen/qwen3-32b", "x/y", "--root", str(tmp_path), "--json").out
    )
    assert [(one["hint"], one["status"]) for one in report["models"]] == [("qwen3", "missing_file"), ("x/y", "miss")]


def test_counts_of_tokens_are_compared_with_those_of_models(tavernkit: Tavernkit) -> None:
    compared = tavernkit("tokenizers", "compare", "scripted", "--json")
    (row,) = json.loads(compared.out)["models"]
    assert (row["counted"], row["problem"], compared.code) == (None, "the provider reports no usage", 1)
    assert row["estimated"] > 10
    assert "no usage" in tavernkit("tokenizers", "compare", "scripted").out


def test_tokenizers_without_a_file_need_none(tavernkit: Tavernkit, tmp_path: Path) -> None:
    table = tavernkit("tokenizers", "check", "kimi-k2.5", "--root", str(tmp_path)).out
    assert "needs no file" in table


def test_the_audit_says_whose_tokenizer_counts(tavernkit: Tavernkit, tmp_path: Path) -> None:
    models = ("gpt-4o", "qwen/qwen3-32b", "x/y", "minimax-m2.1")
    lines = tavernkit("tokenizers", "audit", *models, "--root", str(tmp_path)).out.splitlines()[1:]
    assert [line.split(None, 2)[2].strip() for line in lines] == [
        "its own",
        "its family's; for its own: tavernkit tokenizers fetch qwen3",
        "the default",
        "the default; for its own: tavernkit tokenizers fetch minimax-m2.1",
    ]
