"""``test`` and ``diff``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tavernkit._values import JsonObject
from tavernkit.cards import Character, save
from tavernkit.cards._png import placeholder_png
from tavernkit.cli import input_files
from tavernkit.cli.commands import lore
from tavernkit.cli.commands.test import wait_for_change
from tavernkit.cli.input_files import read_book
from tests.budget.tokenizer_files import write_tokenizer
from tests.cli.terminal import BOOK, CARD, CHAT, Tavernkit

PASSES = f"""
defaults: {{card: {CARD}, books: [{BOOK}], user: Ann}}
tests:
  - name: lamp
    platforms: [silly_tavern, risu_ai]
    message: Who lit the lamp?
    expect:
      fires: [The lamp]
      stays_out: [Dragons]
      contains:
        - Who lit the lamp?
        - {{text: Who lit the lamp?, role: user, depth: 0}}
      lacks: [no such text, {{text: Who lit the lamp?, role: system}}]
      max_tokens: 2000
      macros: {{"{{{{user}}}} and {{{{char}}}}": Ann and Aria}}
  - name: a chat file
    chat: {CHAT}
    now: 2031-03-05T14:07:09Z
    seed: 1
    expect:
      macros: {{"{{{{date}}}}": "March 5, 2031"}}
"""


def written(folder: Path, text: str) -> str:
    path = folder / "a.tavern.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_tests_pass(tavernkit: Tavernkit, tmp_path: Path) -> None:
    written(tmp_path, PASSES)
    outcome = tavernkit("test", str(tmp_path))
    assert (outcome.code, outcome.err) == (0, "")
    assert "3 tests: 3 passed, 0 failed" in outcome.out


def test_failures_say_why(tavernkit: Tavernkit, tmp_path: Path) -> None:
    text = f"""
defaults: {{card: {CARD}, books: [{BOOK}]}}
tests:
  - name: wrong
    message: Nothing to see
    expect:
      fires: [The lmap, Dragons]
      stays_out: [House style]
      contains:
        - no such text
        - {{text: Nothing to see, role: system}}
        - {{text: Nothing to see, depth: 5}}
        - {{text: Nothing to see, before: Nothing}}
        - {{text: Nothing to see, after: no such text}}
      lacks: [Nothing]
      max_tokens: 1
      macros: {{"{{{{user}}}}": Ann}}
      scripts: {{text: a, gives: b}}
"""
    report = tmp_path / "report.xml"
    outcome = tavernkit("test", written(tmp_path, text), "--json", "--junit", str(report))
    assert outcome.code == 1
    [result] = json.loads(outcome.out)["tests"]
    reasons = [check["reason"] for check in result["checks"]]
    assert not any(check["passed"] for check in result["checks"])
    for reason in (
        "did you mean 'The lamp'?",
        "it is in no message",
        "a message of the role user",
        "it is at depth 0",
        "it comes after 'Nothing'",
        "'no such text' is not in the prompt",
        "(user)",
        "the largest parts",
        "it gives 'User'",
        "no script is active",
    ):
        assert any(reason in each for each in reasons), reason
    assert 'failures="1"' in report.read_text(encoding="utf-8")


def test_regex_scripts_are_tested(tavernkit: Tavernkit, tmp_path: Path) -> None:
    script = {"scriptName": "s", "findRegex": "/cat/g", "replaceString": "{{user}}", "placement": [2]}
    (tmp_path / "script.json").write_text(json.dumps(script))
    text = """
tests:
  - user: Ann
    regex_scripts: script.json
    expect: {scripts: [{text: a cat, gives: a Ann}, {text: a cat, gives: a cat, placement: user_input}]}
"""
    assert tavernkit("test", written(tmp_path, text)).code == 0


def test_risuais_regex_scripts_are_tested(tavernkit: Tavernkit, tmp_path: Path) -> None:
    scripts = [
        {"comment": "s", "in": "cat", "out": "{{user}}", "type": "editoutput", "flag": "g", "ableFlag": True},
        {"comment": "t", "in": "dog", "out": "fox", "type": "editprocess"},
    ]
    extensions = {"risuai": {"customScripts": scripts}}
    card = {"spec": "chara_card_v3", "spec_version": "3.0", "data": {"name": "Bo", "extensions": extensions}}
    (tmp_path / "bo.json").write_text(json.dumps(card))
    text = """
tests:
  - {card: bo.json, platforms: risu_ai, user: Ann, expect: {scripts: [
      {text: a cat, gives: a Ann}, {text: a dog, gives: a fox, placement: prompt}]}}
  - {card: bo.json, platforms: risu_ai, expect: {scripts: [
      {text: a cat, gives: a dog}, {text: a, gives: a, placement: user_input},
      {text: a, gives: a, placement: world_info}]}}
  - {card: bo.json, expect: {scripts: [{text: a, gives: a, placement: display}]}}
"""
    first, second, third = json.loads(tavernkit("test", written(tmp_path, text), "--json").out)["tests"]
    assert first["passed"]
    assert [check["reason"] for check in second["checks"]] == [
        "they make 'a User'",
        "no script of the card, preset or modules is an editinput",
        "RisuAI has no placement 'world_info'",
    ]
    assert third["checks"][0]["reason"] == "SillyTavern has no placement 'display'"


def test_a_file_that_cannot_be_read_fails_and_others_run(tavernkit: Tavernkit, tmp_path: Path) -> None:
    written(tmp_path, PASSES)
    (tmp_path / "b.tavern.yaml").write_text("tests: [{expect: {fire: x}}]")
    outcome = tavernkit("test", str(tmp_path))
    assert outcome.code == 1
    assert "did you mean 'fires'?" in outcome.out
    assert "4 tests: 3 passed, 1 failed" in outcome.out


def test_without_a_test_file_nothing_is_passed(tavernkit: Tavernkit, tmp_path: Path) -> None:
    outcome = tavernkit("test", str(tmp_path))
    assert outcome.code == 2
    assert "there is no test file" in outcome.err


def test_a_first_test_is_recorded_and_holds(tavernkit: Tavernkit, tmp_path: Path) -> None:
    target = tmp_path / "aria.tavern.yaml"
    arguments = ("test", "--record", str(target), CARD, BOOK, "--message", "Who lit the lamp?")
    assert tavernkit(*arguments).code == 0
    [test] = yaml.safe_load(target.read_text(encoding="utf-8"))["tests"]
    assert "The lamp" in test["expect"]["fires"]
    assert tavernkit("test", str(target)).code == 0
    assert tavernkit(*arguments).code == 2  # it already exists
    target.unlink()
    assert json.loads(tavernkit(*arguments, "--json").out)["file"] == str(target)


def test_watching_ends_when_a_file_changes(tmp_path: Path) -> None:
    looks = iter([{tmp_path: 1.0}, {tmp_path: 1.0}, {tmp_path: 1.0}, {tmp_path: 2.0}])
    waits: list[float] = []
    wait_for_change(lambda: next(looks), waits.append)
    assert len(waits) == 2


def test_diff_shows_changes_and_prompts(tavernkit: Tavernkit, tmp_path: Path) -> None:
    old, new, page = tmp_path / "old.png", tmp_path / "new.png", tmp_path / "changes.html"
    save(Character(name="Aria", description="A keeper."), old)
    save(Character(name="Aria", description="A <b>sailor</b>."), new)
    outcome = tavernkit("diff", str(old), str(new), "--message", "Hi", "--html", str(page))
    assert outcome.code == 1
    assert '/data/description: "A keeper." → "A <b>sailor</b>."' in outcome.out
    assert "-A keeper." in outcome.out
    assert "+A <b>sailor</b>." in outcome.out
    assert "A &lt;b&gt;sailor&lt;/b&gt;." in page.read_text(encoding="utf-8")
    told = json.loads(tavernkit("diff", str(old), str(new), "--message", "Hi", "--json").out)
    assert told["schema_version"] == 1
    assert told["prompts"]["new"]["tokens"] > 0
    same = tavernkit("diff", str(old), str(old))
    assert (same.code, same.out.splitlines()[-1]) == (0, "no difference")


def test_diff_shows_the_difference_of_long_texts(tavernkit: Tavernkit, tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    card = json.loads(Path(CARD).read_text(encoding="utf-8"))
    old.write_text(json.dumps(card), encoding="utf-8")
    card["data"]["description"] = card["data"]["description"].replace("brass storm glass", "silver storm glass")
    new.write_text(json.dumps(card), encoding="utf-8")
    shown = " ".join(tavernkit("diff", str(old), str(new)).out.split())
    assert "brass storm glass" in shown
    assert "silver storm glass" in shown


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
def test_diff_builds_prompts_with_books(tavernkit: Tavernkit, tmp_path: Path, platform: str) -> None:
    book = json.loads(Path(BOOK).read_text(encoding="utf-8"))
    changed = json.loads(json.dumps(book).replace("lamp", "lantern"))
    new = tmp_path / "new.json"
    new.write_text(json.dumps(changed))
    outcome = tavernkit("diff", BOOK, str(new), "--message", "The lamp!", "--card", CARD, "--platform", platform)
    assert outcome.code == 1
    assert "The prompts:" in outcome.out


def test_diff_of_folders(tavernkit: Tavernkit, tmp_path: Path) -> None:
    for folder, names in (("old", {"a.json": 1, "b.json": 1}), ("new", {"a.json": 2, "c.json": 1})):
        (tmp_path / folder).mkdir()
        for name, number in names.items():
            (tmp_path / folder / name).write_text(json.dumps({"entries": {}, "name": number}))
    told = json.loads(tavernkit("diff", str(tmp_path / "old"), str(tmp_path / "new"), "--json").out)
    assert [(each["file"], each["changes"][0]["kind"]) for each in told["files"]] == [
        ("a.json", "changed"),
        ("b.json", "removed"),
        ("c.json", "added"),
    ]
    assert tavernkit("diff", str(tmp_path), CARD).code == 2
    assert tavernkit("diff", CARD).code == 2


def test_diff_gives_git_text_of_cards_and_of_other_pictures(tavernkit: Tavernkit, tmp_path: Path) -> None:
    card, picture = tmp_path / "card.png", tmp_path / "picture.png"
    save(Character(name="Aria", description="One line.\nAnother line."), card)
    picture.write_bytes(placeholder_png(2, 2))
    text = tavernkit("diff", "--text", str(card))
    assert text.code == 0
    assert "Another line." in text.out
    plain = tavernkit("diff", "--text", str(picture))
    assert plain.code == 0
    assert "not readable as a card" in plain.out


def test_coverage_of_a_book_over_chats(tavernkit: Tavernkit, tmp_path: Path) -> None:
    page = tmp_path / "coverage.html"
    told = json.loads(tavernkit("lore", "coverage", BOOK, "--chat", CHAT, "--html", str(page), "--json").out)
    verdicts = {entry["title"]: entry["verdict"] for entry in told["entries"]}
    assert (told["schema_version"], told["turns"]) == (1, 2)
    assert verdicts["Dragons"] == "never"
    assert verdicts["House style"] == "always"
    assert verdicts["Tidewatch"] == "only by recursion"
    assert "Dragons" in page.read_text(encoding="utf-8")
    folder = str(Path(CHAT).parent)
    assert "8 entries over 2 turns of 1 chat" in tavernkit("lore", "coverage", BOOK, "--chat", folder).out
    starved = json.loads(tavernkit("lore", "coverage", BOOK, "--chat", CHAT, "--budget", "1", "--json").out)
    assert "always out of budget" in {entry["verdict"] for entry in starved["entries"]}
    assert tavernkit("lore", "coverage", BOOK, "--chat", str(tmp_path)).code == 2


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
def test_coverage_of_a_long_chain_over_a_long_chat_ends(
    tavernkit: Tavernkit, tmp_path: Path, platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The books were read and compiled anew for every turn: 5,000 entries and 1,000 lines took more than 240 s."""
    entries = {
        str(n): {"uid": n, "key": [f"key{n}x"], "content": f"about key{n + 1}x", "comment": f"e{n}", "position": 0}
        for n in range(1000)
    }
    book, chat = tmp_path / "chain.json", tmp_path / "chat.jsonl"
    book.write_text(json.dumps({"entries": entries}))
    lines = [{"name": "A", "is_user": n % 2 == 0, "mes": f"line {n} key{n % 10 * 100}x"} for n in range(60)]
    chat.write_text("\n".join(json.dumps(line) for line in ({"user_name": "A"}, *lines)))
    read: list[Path] = []

    def noted(path: Path) -> JsonObject:
        read.append(path)
        return read_book(path)

    monkeypatch.setattr(input_files, "read_book", noted)
    command = ("lore", "coverage", str(book), "--chat", str(chat), "--platform", platform, "--json")
    told = json.loads(tavernkit(*command).out)
    assert read == [book]
    assert (told["turns"], len(told["entries"])) == (30, 1000)
    assert {entry["verdict"] for entry in told["entries"]} >= {"sometimes", "only by recursion"}
    monkeypatch.setattr(lore, "MAX_CHECKED", 5_500)
    outcome = tavernkit(*command)
    assert json.loads(outcome.out)["turns"] == 5
    assert "1000 entries: only the newest 5 of 30 turns are scanned" in outcome.err


def test_lore_test_suggests_near_names(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("lore", "test", BOOK, "--text", "the lamp", "--expect", "The lmap")
    assert outcome.code == 1
    assert "did you mean 'The lamp'?" in outcome.out


def test_tokens_refuses_pictures(tavernkit: Tavernkit, tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    picture.write_bytes(placeholder_png(2, 2))
    outcome = tavernkit("tokens", str(picture))
    assert outcome.code == 2
    assert "tavernkit build" in outcome.err


def test_lint_shows_what_it_repairs_and_what_it_skips(tavernkit: Tavernkit, tmp_path: Path) -> None:
    book = tmp_path / "book.json"
    entries = {str(n): {"uid": n, "key": ["a", "a"], "content": "", "position": 0} for n in range(3)}
    book.write_text(json.dumps({"entries": entries}))
    (tmp_path / "theme.json").write_text("{}")
    outcome = tavernkit("lint", str(tmp_path), "--fix", "--backup")
    assert "changed /entries/0/key" in outcome.out
    assert "and 2 more places" in outcome.out
    assert "1 other file skipped" in outcome.out
    assert (tmp_path / "book.json.bak").exists()
    (tmp_path / ".tavernlint").write_text("book.json: *")
    assert "left out by .tavernlint" in tavernkit("lint", str(tmp_path)).out


def silly_tavern(root: Path) -> Path:
    user = root / "SillyTavern" / "data" / "default-user"
    for name in ("characters", "worlds", "extensions/Timeline"):
        (user / name).mkdir(parents=True)
    (user / "settings.json").write_text(json.dumps({"username": "Ann", "main_api": "openai"}))
    (user / "extensions" / "Timeline" / "manifest.json").write_text(json.dumps({"display_name": "Timelines"}))
    save(Character(name="Aria"), user / "characters" / "Aria.png")
    return user


def test_doctor_finds_an_installation_at_any_level(tavernkit: Tavernkit, tmp_path: Path) -> None:
    user = silly_tavern(tmp_path)
    for path in (user, user.parent, user.parent.parent):
        outcome = tavernkit("doctor", str(path), "--json")
        [found] = json.loads(outcome.out)["found"]
        assert (outcome.code, found["kind"], found["counts"]["characters"]) == (0, "SillyTavern", 1)
        assert found["used"]["user"] == "Ann"
        assert found["unsupported"] == ["extension Timelines (Timeline): its code is not run"]
    assert "not reproduced: extension Timelines" in tavernkit("doctor", str(user)).out
    (user / "QuickReplies").mkdir()
    replies = {"name": "Mine", "qrList": [{"label": "Roll", "executeOnUser": True}, {"label": "Wave"}]}
    (user / "QuickReplies" / "Mine.json").write_text(json.dumps(replies))
    third_party = user.parents[1] / "public" / "scripts" / "extensions" / "third-party" / "Glow"
    third_party.mkdir(parents=True)
    [found] = json.loads(tavernkit("doctor", str(user), "--json").out)["found"]
    assert found["unsupported"] == [
        "extension Timelines (Timeline): its code is not run",
        "Quick Replies of 'Mine' run by themselves and are not run here: Roll",
        "extension Glow: its code is not run",
    ]
    off = {"disabledExtensions": ["third-party/Timeline", "third-party/Glow"]}
    (user / "settings.json").write_text(json.dumps({"extension_settings": off}))
    [found] = json.loads(tavernkit("doctor", str(user), "--json").out)["found"]
    assert found["unsupported"] == ["Quick Replies of 'Mine' run by themselves and are not run here: Roll"]
    (user / "characters" / "Broken.png").write_bytes(b"\x89PNG")
    broken = tavernkit("doctor", str(user))
    assert (broken.code, "Broken.png" in broken.err) == (1, True)


def test_doctor_says_which_tokenizer_stands_in(tavernkit: Tavernkit, tmp_path: Path) -> None:
    user = silly_tavern(tmp_path)

    def unsupported(**settings: object) -> str:
        (user / "settings.json").write_text(json.dumps(settings))
        [found] = json.loads(tavernkit("doctor", str(user), "--json").out)["found"]
        return "\n".join(found["unsupported"])

    cohere = {"main_api": "openai", "oai_settings": {"chat_completion_source": "cohere", "cohere_model": "command-r"}}
    assert "token counts: qwen3 is used instead of command-r" in unsupported(**cohere)
    assert "token counts" not in unsupported(main_api="openai", oai_settings={"openai_model": "gpt-4o"})
    assert "token counts: SillyTavern lets ooba count" in unsupported(main_api="textgenerationwebui")
    (user.parent / "_cache").mkdir()
    write_tokenizer(user.parent / "_cache" / "command-r.json")
    assert "token counts" not in unsupported(**cohere)


def test_doctor_reads_every_kind_of_file_and_counts_it(tavernkit: Tavernkit, tmp_path: Path) -> None:
    user = silly_tavern(tmp_path)
    kinds = {
        "groups": "group",
        "OpenAI Settings": "chat completion preset",
        "TextGen Settings": "text completion preset",
        "KoboldAI Settings": "KoboldAI preset",
        "NovelAI Settings": "NovelAI preset",
        "reasoning": "reasoning template",
        "instruct": "instruct template",
    }
    for folder in kinds:
        (user / folder).mkdir()
        (user / folder / "Good.json").write_text("{}")
        (user / folder / "Bad.json").write_text("[]")
    (user / "groups" / "Good.json").write_text(json.dumps({"id": "Good", "members": [], "chats": ["talk"]}))
    (user / "group chats").mkdir()
    (user / "group chats" / "talk.jsonl").write_text("{}")
    second = user.parent / "second"
    (second / "characters").mkdir(parents=True)
    outcome = tavernkit("doctor", str(user.parent), "--json")
    first, other = json.loads(outcome.out)["found"]
    assert outcome.code == 1
    for kind in kinds.values():
        assert any(problem.startswith(f"{kind} Bad: ") for problem in first["problems"]), kind
        assert (kind == "group" and first["counts"]["groups"] == 1) or first["counts"][f"{kind}s"] == 2
    assert first["counts"]["group chats"] == 1
    assert Path(other["path"]).name == "second"
    assert "there is no settings.json" in other["problems"][0]


def test_doctor_finds_a_save_of_risuai(tavernkit: Tavernkit, tmp_path: Path) -> None:
    save_file = tmp_path / "database.json"
    save_file.write_text(json.dumps({"characters": [], "username": "Ann", "plugins": [{"name": "Voices"}]}))
    outcome = tavernkit("doctor", str(save_file), "--json")
    [found] = json.loads(outcome.out)["found"]
    assert (found["kind"], found["counts"]["plugins"]) == ("RisuAI", 1)
    assert found["unsupported"] == ["plugin Voices: its code is not run"]


def test_doctor_refuses_other_things(tavernkit: Tavernkit, tmp_path: Path) -> None:
    outcome = tavernkit("doctor", str(tmp_path))
    assert outcome.code == 2
    assert "neither an installation of SillyTavern nor a save of RisuAI" in outcome.err
    assert tavernkit("doctor", "nowhere").code == 2


def test_errors_speak_of_commands_not_of_attributes(tavernkit: Tavernkit, tmp_path: Path) -> None:
    module = tmp_path / "rain.json"
    module.write_text(json.dumps({"type": "risuModule", "name": "Rain", "lorebook": []}))
    outcome = tavernkit("card", "show", str(module))
    assert outcome.code == 2
    assert "is a RisuAI module, not a character card: tavernkit lint and lore scan read it" in outcome.err


def test_a_test_file_that_cannot_be_read_is_named_once(tavernkit: Tavernkit, tmp_path: Path) -> None:
    file = tmp_path / "bad.tavern.yaml"
    file.write_text("defaults: {crad: aria.json}\ntests: [{name: x, expect: {fires: [a]}}]\n", encoding="utf-8")
    outcome = tavernkit("test", str(file))
    assert outcome.code == 1
    assert [line.strip() for line in outcome.out.splitlines()[:2]] == [
        f"FAILED  {file}",
        "defaults has no 'crad'; did you mean 'card'?",
    ]


def test_diff_names_the_file_that_cannot_be_read(tavernkit: Tavernkit, tmp_path: Path) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"\x89PNG\r\n\x1a\n")
    for files in ([str(broken), CARD], [CARD, str(broken)]):
        outcome = tavernkit("diff", *files)
        assert outcome.code == 2
        assert outcome.err.splitlines()[-1].startswith(f"error: {broken}: the PNG")
