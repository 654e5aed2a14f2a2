"""What the linter finds, and what it leaves alone."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tavernkit._text.js_regex import JSRegex
from tavernkit._text.json_pointer import resolve
from tavernkit.cards import Character, load, save
from tavernkit.cards._png import placeholder_png
from tavernkit.lint import (
    FileKind,
    Finding,
    fix_file,
    grouped,
    is_known,
    lint_file,
    lint_lorebook,
    lint_regex_script,
    lint_text,
    lint_world_book,
    measure_worst_case,
    without_suppressed,
)
from tavernkit.lint import _files as files
from tavernkit.lint._books import repaired_entry
from tavernkit.lint._lorebooks import DECORATORS
from tavernkit.lint._texts import MAX_TEXT
from tavernkit.risu_ai._lorebook import activation
from tavernkit.silly_tavern import WorldBook


def entry(**fields: object) -> dict[str, object]:
    plain: dict[str, object] = {"uid": 0, "key": ["lamp"], "content": "text", "position": 0, "probability": 100}
    return plain | fields


def codes(findings: Iterable[Finding]) -> set[str]:
    return {finding.code for finding in findings}


def in_book(*entries: dict[str, object], budget: int = 2048) -> set[str]:
    listed = {str(number): {**each, "uid": number} for number, each in enumerate(entries)}
    return codes(lint_world_book(WorldBook.from_json({"entries": listed}, name="book"), budget=budget))


def test_a_plain_entry_is_fine() -> None:
    assert in_book(entry()) == set()


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"key": []}, "NEVER_FIRES"),
        ({"useProbability": True, "probability": 0}, "NEVER_FIRES"),
        ({"delayUntilRecursion": True, "excludeRecursion": True}, "NEVER_FIRES"),
        ({"selective": True, "selectiveLogic": 2, "keysecondary": ["lamp", "oil"]}, "NEVER_FIRES"),
        ({"selective": True, "selectiveLogic": 1, "keysecondary": ["lamp"]}, "NEVER_FIRES"),
        ({"selective": False, "keysecondary": ["oil"]}, "IGNORED_KEYS"),
        ({"key": ["lamp", " lamp"]}, "DUPLICATE_KEY"),
        ({"key": ["lamp", ""]}, "EMPTY_KEY"),
        ({"key": ["lamp", " "]}, "BLANK_KEY"),
        ({"key": [" lamp"]}, "BLANKS_AROUND_KEY"),
        ({"key": ["lamp, oil"]}, "COMMA_IN_KEY"),
        ({"key": ["/la(mp/i"]}, "BAD_REGEX_KEY"),
        ({"key": ["/(a+)+$/"]}, "SLOW_REGEX"),
        ({"position": 7}, "NO_OUTLET"),
        ({"position": 42}, "UNKNOWN_POSITION"),
        ({"content": "  "}, "EMPTY_CONTENT"),
        ({"content": "{{usr}}"}, "UNKNOWN_MACRO"),
        ({"content": 5}, "UNUSABLE_ENTRY"),
        ({"content": "word " * 3000}, "OVER_BUDGET"),
        ({"constant": True, "content": "word " * 3000}, "BUDGET_STARVATION"),
    ],
)
def test_entries_that_do_not_do_what_they_seem_to(fields: dict[str, object], code: str) -> None:
    assert code in in_book(entry(**fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"key": [], "constant": True},
        {"key": [], "vectorized": True},
        {"key": [], "disable": True},
        {"key": [], "content": "@@activate\ntext"},
        {"selective": True, "selectiveLogic": 0, "keysecondary": ["lamp"]},
        {"position": 7, "outletName": "here"},
        {"key": ["/la(mp|ntern)s?/i"]},
    ],
)
def test_entries_that_are_as_meant(fields: dict[str, object]) -> None:
    assert in_book(entry(**fields)) == set()


def test_a_missing_probability_is_an_error() -> None:
    plain = entry(useProbability=True)
    del plain["probability"]
    assert "NEVER_FIRES" in in_book(plain)


def test_a_group_with_an_entry_that_is_always_there_shadows_the_others() -> None:
    champion = entry(constant=True, groupOverride=True, group="g")
    assert "SHADOWED" in in_book(champion, entry(group="g"))
    assert "SHADOWED" not in in_book(entry(constant=True, group="g"), entry(group="g"))
    assert "SHADOWED" not in in_book(
        entry(constant=True, groupOverride=True, group="g", useProbability=True, probability=50), entry(group="g")
    )


@pytest.mark.parametrize(
    ("text", "language", "code"),
    [
        ("{{usr}}", "silly_tavern", "UNKNOWN_MACRO"),
        ("{{if .x}}yes", "silly_tavern", "UNCLOSED_BLOCK"),
        ("{{#if x}}yes", "any", "UNCLOSED_BLOCK"),
        ("{{nosuch}}", "risu_ai", "CBS"),
        ("{{lettersize}} {{arrayelement::[]::0}}", "any", "RISU_AI_ONLY"),
    ],
)
def test_texts_with_something_wrong(text: str, language: str, code: str) -> None:
    assert code in codes(lint_text(text, "/x", language))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "text", ["plain", "{{user}} and {{char}}", "{{original}}", "{{getvar::x}}", "{{#if 1}}a{{/if}}"]
)
def test_texts_that_are_fine(text: str) -> None:
    assert codes(lint_text(text, "/x")) == set()


def test_a_finding_says_where_in_the_text() -> None:
    [found] = lint_text("one\ntwo {{usr}}", "/x", "silly_tavern")
    assert (found.line, found.column) == (2, 5)
    assert found.place == "/x:2:5"
    [found] = lint_text("one\ntwo {{usr}}", "/x", "risu_ai")
    assert (found.line, found.column) == (2, 5)


def test_the_worst_case_is_measured() -> None:
    explosive = measure_worst_case(JSRegex.compile("^(a|a)*$"))
    assert explosive.gave_up
    assert explosive.length < 100
    assert "ms on" in str(explosive)
    harmless = measure_worst_case(JSRegex.compile("la(mp|ntern)"))
    assert not harmless.gave_up


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ({"findRegex": "/(/", "placement": [1]}, "BAD_REGEX"),
        ({"findRegex": "", "placement": [1]}, "EMPTY_SCRIPT"),
        ({"findRegex": "/a/", "placement": []}, "NEVER_RUNS"),
        ({"findRegex": "/a/", "placement": [1], "minDepth": 5, "maxDepth": 2}, "NEVER_RUNS"),
        ({"findRegex": "/(x+x+)+y/", "placement": [1]}, "SLOW_REGEX"),
        ({"in": "(", "out": "", "type": "editoutput"}, "BAD_REGEX"),
        ({"in": "", "out": "", "type": "editoutput"}, "EMPTY_SCRIPT"),
        ("no object", "NOT_A_SCRIPT"),
    ],
)
def test_scripts_with_something_wrong(script: object, code: str) -> None:
    assert code in codes(lint_regex_script(script, "/0"))


def test_scripts_that_are_fine() -> None:
    good = {"findRegex": "/\\*(.+?)\\*/g", "replaceString": "<i>$1</i>", "placement": [2]}
    assert codes(lint_regex_script(good, "/0")) == set()
    assert codes(lint_regex_script({"in": "lamps?", "out": "{{user}}", "type": "editoutput"}, "/0")) == set()


CARD = {
    "spec": "chara_card_v2",
    "spec_version": "2.0",
    "data": {"name": "Bel", "description": "{{chr}}", "first_mes": "Hm?", "extensions": {}},
}


@pytest.mark.parametrize(
    ("name", "content", "kind", "expected"),
    [
        ("card.json", CARD, FileKind.CARD, {"MISSING_FIELD", "UNKNOWN_MACRO"}),
        ("broken.json", "{", FileKind.CARD, {"NOT_JSON"}),
        ("world.json", {"entries": {"0": entry(key=[])}}, FileKind.WORLD_BOOK, {"NEVER_FIRES"}),
        ("lore.json", {"type": "risu", "data": [{"key": "", "content": "x"}]}, FileKind.LOREBOOK, {"NEVER_FIRES"}),
        ("lore.json", {"type": "risu", "data": [3]}, FileKind.LOREBOOK, {"UNUSABLE_ENTRY"}),
        (
            "slow.lorebook",
            {"type": "risu", "data": [{"key": "/(a+)+$/i", "useRegex": True, "content": "x"}]},
            FileKind.LOREBOOK,
            {"SLOW_REGEX"},
        ),
        (
            "risu_preset.json",
            {
                "mainPrompt": "{{#if 1}}",
                "promptTemplate": [{"type": "plain", "type2": "normal", "text": "{{nosuch}}", "role": "system"}],
                "regex": [{"in": "(", "out": "", "type": "editinput"}],
            },
            FileKind.RISU_PRESET,
            {"UNCLOSED_BLOCK", "BAD_REGEX"},
        ),
        ("garbage.risup", "no preset", FileKind.RISU_PRESET, {"UNREADABLE_FILE"}),
        ("scripts.json", [{"findRegex": "/(/", "placement": [1]}], FileKind.REGEX, {"BAD_REGEX"}),
        ("risu.json", {"type": "regex", "data": [{"in": "(", "type": "editoutput"}]}, FileKind.REGEX, {"BAD_REGEX"}),
        ("context.json", {"story_string": "{{#if system}}"}, FileKind.CONTEXT_TEMPLATE, {"BAD_TEMPLATE"}),
        ("context.json", {"story_string": None}, FileKind.CONTEXT_TEMPLATE, {"WRONG_TYPE"}),
        ("instruct.json", {"input_sequence": "<|user|>"}, FileKind.INSTRUCT_TEMPLATE, {"NO_OUTPUT_SEQUENCE"}),
        ("instruct.json", {"input_sequence": 1, "output_sequence": "x"}, FileKind.INSTRUCT_TEMPLATE, {"WRONG_TYPE"}),
        ("chat.jinja", "{% if x %}", FileKind.CHAT_TEMPLATE, {"BAD_TEMPLATE"}),
        ("chat.jinja", "{{ " + "1" * 5000 + " }}", FileKind.CHAT_TEMPLATE, {"BAD_TEMPLATE"}),
        ("chat.jinja", "{% generation %}x{% endif %}", FileKind.CHAT_TEMPLATE, {"BAD_TEMPLATE"}),
        ("note.cbs", "{{#if 1}}", FileKind.TEXT, {"UNCLOSED_BLOCK"}),
        (
            "preset.json",
            {"prompts": [], "openai_max_context": 100, "openai_max_tokens": 200},
            FileKind.PRESET,
            {"PRESET"},
        ),
        (
            "preset.json",
            {
                "prompts": [{"identifier": "main", "content": "{{usr}}"}],
                "openai_max_context": "much",
                "extensions": {"regex_scripts": [{"findRegex": "/(/", "placement": [1]}]},
            },
            FileKind.PRESET,
            {"READ_WITH_WARNING", "UNKNOWN_MACRO", "BAD_REGEX"},
        ),
    ],
)
def test_files_are_recognised_and_checked(
    tmp_path: Path, name: str, content: object, kind: FileKind, expected: set[str]
) -> None:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    found_kind, findings = lint_file(path)
    assert found_kind is kind
    assert expected <= codes(findings)


def test_the_worst_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "world.json"
    path.write_text(json.dumps({"entries": {"0": entry(key=["", "/(a+)+$/"])}}), encoding="utf-8")
    _, findings = lint_file(path)
    assert [str(each.severity) for each in findings] == ["error", "info"]


def test_fixing_a_card_fills_in_what_the_specification_asks_for(tmp_path: Path) -> None:
    path = tmp_path / "card.json"
    path.write_text(json.dumps(CARD, indent=2), encoding="utf-8")
    assert fix_file(path)
    fixed = json.loads(path.read_text(encoding="utf-8"))
    assert fixed["data"]["tags"] == []
    assert fixed["data"]["name"] == "Bel"
    assert "MISSING_FIELD" not in codes(lint_file(path)[1])
    assert not fix_file(path)


@pytest.mark.parametrize("content", ["half \\ud83d of an emoji", "\U0001f600", "\\ud83d\\ude00"])
def test_fixing_keeps_every_text(tmp_path: Path, content: str) -> None:
    path = tmp_path / "world.json"
    path.write_text(f'{{"entries": {{"0": {{"key": ["a", "a"], "content": "{content}"}}}}}}', encoding="utf-8")
    before = json.loads(path.read_text(encoding="utf-8"))["entries"]["0"]["content"]
    assert fix_file(path)
    assert json.loads(path.read_text(encoding="utf-8"))["entries"]["0"] == {"key": ["a"], "content": before}
    assert [each.name for each in tmp_path.iterdir()] == ["world.json"]


def test_fixing_leaves_a_file_alone_that_cannot_be_written_again(tmp_path: Path) -> None:
    path = tmp_path / "world.json"
    written = '{"entries": {"0": {"key": ["a", "a"], "order": 1e400}}}'
    path.write_text(written, encoding="utf-8")
    assert not fix_file(path)
    assert path.read_text(encoding="utf-8") == written


@pytest.mark.parametrize("indent", ["\t", "  ", "    "])
def test_fixing_keeps_the_indent(tmp_path: Path, indent: str) -> None:
    path = tmp_path / "world.json"
    path.write_text(json.dumps({"entries": {"0": entry(key=["a", "a"])}}, indent=indent), encoding="utf-8")
    assert fix_file(path)
    assert path.read_text(encoding="utf-8").startswith(f'{{\n{indent}"entries": {{\n{indent}{indent}"0"')


def test_fixing_leaves_other_files_alone(tmp_path: Path) -> None:
    path = tmp_path / "card.png"
    path.write_bytes(b"\x89PNG")
    assert not fix_file(path)
    assert path.read_bytes() == b"\x89PNG"


def test_a_file_that_is_too_large_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_BYTES", 3)
    path = tmp_path / "world.json"
    path.write_text('{"entries": {}}', encoding="utf-8")
    assert codes(lint_file(path)[1]) == {"UNREADABLE_FILE"}


@pytest.mark.parametrize("name", ["world.json", "card.png", "template.jinja", "preset.risup"])
def test_a_file_that_is_not_there_is_a_finding(tmp_path: Path, name: str) -> None:
    _, findings = lint_file(tmp_path / name)
    assert [finding.code for finding in findings] == ["UNREADABLE_FILE"]
    assert name in findings[0].message


def test_the_book_greetings_and_prompts_of_a_card_are_checked(tmp_path: Path) -> None:
    data = CARD["data"] | {  # pyright: ignore[reportOperatorIssue]
        "alternate_greetings": ["{{if x}}"],
        "system_prompt": "Mine.",
        "character_book": {"entries": [{"keys": [], "content": "x", "enabled": True, "insertion_order": 1}]},
    }
    path = tmp_path / "card.json"
    path.write_text(json.dumps(CARD | {"data": data}), encoding="utf-8")
    found = {(finding.where, finding.code) for finding in lint_file(path)[1]}
    assert {
        ("/data/alternate_greetings/0", "UNCLOSED_BLOCK"),
        ("/data/system_prompt", "REPLACES_PROMPT"),
        ("/data/character_book/entries/0", "NEVER_FIRES"),
    } <= found


def test_a_very_long_text_is_checked_up_to_the_limit() -> None:
    assert codes(lint_text("{{user}}" + "x" * MAX_TEXT + "{{usr}}", "/x")) == {"LONG_TEXT"}


def fixed_keys(**fields: object) -> object:
    return repaired_entry(fields).get("key")


def test_fixing_a_book_takes_blanks_and_repeated_keys_away(tmp_path: Path) -> None:
    path = tmp_path / "world.json"
    broken = entry(key=[" lamp", "lamp ", "oil"], keysecondary=["wick", "wick"], selective=True)
    path.write_text(json.dumps({"entries": {"0": broken, "1": 5}}, indent=4), encoding="utf-8")
    assert fix_file(path)
    text = path.read_text(encoding="utf-8")
    fixed = json.loads(text)["entries"]
    assert (fixed["0"]["key"], fixed["0"]["keysecondary"], fixed["1"]) == (["lamp", "oil"], ["wick"], 5)
    assert text.startswith('{\n    "entries"')
    assert not [finding for finding in lint_file(path)[1] if finding.fixable]


def test_keys_of_nothing_but_blanks_say_something_and_stay() -> None:
    assert fixed_keys(key=["", " ", "lamp"]) == ["", " ", "lamp"]


def test_a_key_of_blanks_fires_always_and_is_not_reported_as_never_firing() -> None:
    assert in_book(entry(key=[" "])) == {"BLANK_KEY"}


@pytest.mark.parametrize("group", [{"group": "g"}, {"extensions": {"group": "g"}}])
def test_keys_of_a_group_are_scored_as_written_and_stay(group: dict[str, object]) -> None:
    assert fixed_keys(key=[" lamp", "lamp"], **group) == [" lamp", "lamp"]


def test_what_fixing_leaves_as_it_is_is_not_called_fixable() -> None:
    book = WorldBook.from_json({"entries": {"0": entry(key=[" lamp", "lamp"], group="g")}}, name="book")
    assert not any(finding.fixable for finding in lint_world_book(book))


def test_fixing_the_book_of_a_v3_card_fills_in_what_its_entries_need(tmp_path: Path) -> None:
    book = {"entries": [{"keys": ["lamp "], "content": "x"}, 7], "extensions": {}}
    card = {"spec": "chara_card_v3", "spec_version": "3.0", "data": {"name": "Bel", "character_book": book}}
    path = tmp_path / "card.json"
    path.write_text(json.dumps(card), encoding="utf-8")
    assert fix_file(path)
    fixed = json.loads(path.read_text(encoding="utf-8"))["data"]["character_book"]["entries"]
    assert fixed == [{"extensions": {}, "use_regex": False, "keys": ["lamp"], "content": "x"}, 7]


def test_a_card_of_an_unknown_specification_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "card.json"
    path.write_text('{"spec": "chara_card_v9", "data": {}}', encoding="utf-8")
    assert not fix_file(path)


def test_an_entry_that_can_never_fire_is_told_once(tmp_path: Path) -> None:
    never = {"keys": [], "content": "x", "enabled": True, "insertion_order": 1}
    book = {"name": "Bel", "character_book": {"entries": [never]}}
    card = {"spec": "chara_card_v3", "spec_version": "3.0", "data": book}
    path = tmp_path / "card.json"
    path.write_text(json.dumps(card), encoding="utf-8")
    _, findings = lint_file(path)
    assert [each.code for each in findings if "no key" in each.message] == ["NEVER_FIRES"]


@pytest.mark.parametrize("nested", [False, True])
def test_the_lore_of_a_module_is_checked(tmp_path: Path, nested: bool) -> None:
    module = {"name": "Rain", "lorebook": [{"key": "", "content": "It rains.", "comment": "Rain"}]}
    path = tmp_path / "module.json"
    path.write_text(json.dumps({"type": "risuModule", **({"module": module} if nested else module)}), encoding="utf-8")
    kind, findings = lint_file(path)
    assert kind is FileKind.MODULE
    assert [(each.place, each.code) for each in findings] == [("/module/lorebook/0 'Rain'", "NEVER_FIRES")]


def test_the_regex_scripts_of_a_module_are_checked(tmp_path: Path) -> None:
    scripts = [{"in": "lamp", "out": "", "type": "editoutput"}, {"in": "(", "out": "", "type": "editoutput"}]
    path = tmp_path / "module.json"
    path.write_text(json.dumps({"type": "risuModule", "name": "Rain", "regex": scripts}), encoding="utf-8")
    assert [(each.where, each.code) for each in lint_file(path)[1]] == [("/module/regex/1/in", "BAD_REGEX")]


def test_findings_point_to_their_place_in_the_file(tmp_path: Path) -> None:
    bad = {"comment": "Lamp", "content": "{{usr}}", "enabled": True, "insertion_order": 1, "constant": True}
    entries = [{"id": 7, "keys": ["{{usr}}"], **bad}, {"id": 3, "keys": ["lamp"], **bad}, "no entry"]
    card = CARD | {"data": CARD["data"] | {"character_book": {"entries": entries}}}  # pyright: ignore[reportOperatorIssue]
    world = {"entries": {"a/b": {"uid": 4, "key": ["{{usr}}"], "comment": "Lamp", "content": "{{usr}}", "order": 1}}}
    for name, value, places in (
        ("card.json", card, ["entries/0/content", "entries/0/keys", "entries/1/content"]),
        ("book.json", {"name": "b", "extensions": {}, "entries": entries[:2]}, ["entries/0/content", "entries/0/keys"]),
        ("world.json", world, ["entries/a~1b/content", "entries/a~1b/key"]),
    ):
        path = tmp_path / name
        path.write_text(json.dumps(value), encoding="utf-8")
        above = "/data/character_book" if name == "card.json" else ""
        found = {(each.where, each.entry) for each in lint_file(path)[1]}
        assert {(f"{above}/{place}", "Lamp") for place in places} <= found
        pointers = [where for where, entry in found if entry]
        assert all(resolve(value, where) is not None for where in pointers)


def test_a_file_in_another_encoding_is_no_broken_one(tmp_path: Path) -> None:
    path = tmp_path / "card.json"
    path.write_text(json.dumps(CARD), encoding="utf-16")
    _, findings = lint_file(path)
    assert "READ_WITH_WARNING" in {each.code for each in findings}
    assert "NOT_JSON" not in {each.code for each in findings}


@pytest.mark.parametrize(
    ("given", "code", "severity"),
    [
        ({"key": "a", "content": "@@position\nx"}, "BAD_DECORATOR", "error"),
        ({"key": "a", "content": "@@position nowhere\nx"}, "BAD_DECORATOR", "warning"),
        ({"key": "a", "content": "@@depth abc\nx"}, "BAD_DECORATOR", "warning"),
        ({"key": "a", "content": "@@role boss\nx"}, "BAD_DECORATOR", "warning"),
        ({"key": "a", "content": "@@additional_keys\nx"}, "BAD_DECORATOR", "warning"),
        ({"key": "a", "content": "@@depht 3\nx"}, "UNKNOWN_DECORATOR", "warning"),
        ({"key": "a", "content": "@@dont_activate\nx"}, "NEVER_FIRES", "warning"),
        ({"key": "a, b, a", "content": "x"}, "DUPLICATE_KEY", "info"),
        ({"key": "a", "selective": True, "content": "x"}, "NO_SECONDARY", "info"),
        ({"key": "/dragoon/i", "useRegex": True, "content": "x"}, "NEVER_MATCHES", "warning"),
        ({"key": "/dragoon/", "useRegex": True, "content": "x"}, "NEVER_MATCHES", "warning"),
        ({"key": "dragoon", "useRegex": True, "content": "x"}, "BAD_REGEX_KEY", "warning"),
        ({"key": "/(/i", "useRegex": True, "content": "x"}, "BAD_REGEX", "error"),
        ({"key": "a", "content": "word " * 3000}, "OVER_BUDGET", "warning"),
        ({"alwaysActive": True, "content": "word " * 3000}, "BUDGET_STARVATION", "warning"),
    ],
)
def test_entries_of_risuai_lorebooks(given: dict[str, Any], code: str, severity: str) -> None:
    found = [each for each in lint_lorebook([given]) if each.code == code]
    assert [str(each.severity) for each in found[:1]] == [severity]


@pytest.mark.parametrize(
    "given",
    [
        {"key": "/?(?:dragoon)/i", "useRegex": True, "content": "x"},
        {"key": "a", "content": "@@depth 3\n@@role user\n@@position pt_here\nx"},
        {"content": "@@activate\nx"},
    ],
)
def test_good_entries_of_risuai_lorebooks(given: dict[str, Any]) -> None:
    assert not [*lint_lorebook([given])]


def test_lint_knows_every_decorator_of_risuai() -> None:
    assert set(DECORATORS) == set(activation._HANDLERS)  # pyright: ignore[reportPrivateUsage]  # there is no other list


def card_with_book(**book: Any) -> dict[str, Any]:
    data: dict[str, Any] = {**CARD}["data"]
    return {**CARD, "data": {**data, "character_book": book}}


def test_fixing_adds_the_extensions_of_a_book(tmp_path: Path) -> None:
    path = tmp_path / "card.json"
    lamp = {"keys": ["a"], "content": "x", "extensions": {}, "enabled": True, "insertion_order": 1}
    path.write_text(json.dumps(card_with_book(entries=[lamp])), encoding="utf-8")
    assert any(each.where.endswith("/character_book/extensions") and each.fixable for each in lint_file(path)[1])
    assert fix_file(path, backup=True)
    assert json.loads(path.read_text(encoding="utf-8"))["data"]["character_book"]["extensions"] == {}
    assert not any(each.fixable for each in lint_file(path)[1])
    assert "extensions" not in json.loads((tmp_path / "card.json.bak").read_text())["data"]["character_book"]


@pytest.mark.parametrize("suffix", ["png", "charx", "webp", "jpg"])
def test_fixing_works_inside_pictures_and_archives(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"card.{suffix}"
    lamp = {"keys": ["a ", "a"], "content": "x", "enabled": True, "insertion_order": 1, "extensions": {}}
    save(Character.from_card(card_with_book(entries=[lamp])), path)
    picture = load(path).image
    assert fix_file(path)
    again = load(path)
    assert again.character.character_book is not None
    assert list(again.character.character_book.entries[0].keys) == ["a"]
    assert (again.image is None) == (picture is None)
    assert not fix_file(path)


def test_other_files_of_a_data_folder_are_not_taken_for_cards(tmp_path: Path) -> None:
    for name, content in (
        ("theme.json", {"name": "Dark", "blur_strength": 10}),
        ("settings.json", {"power_user": {}, "username": "Ann"}),
        ("workflow.json", {"3": {"class_type": "KSampler"}}),
        ("world.json", {"entries": {}}),
        ("card.json", CARD),
    ):
        (tmp_path / name).write_text(json.dumps(content))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "avatar.png").write_bytes(placeholder_png(2, 2))
    (tmp_path / "config.yaml").write_text("port: 8000")
    (tmp_path / "a.tavern.yaml").write_text("tests: []")
    known = {path.name for path in tmp_path.iterdir() if is_known(path)}
    assert known == {"world.json", "card.json", "broken.json"}


def test_a_side_file_says_what_not_to_report(tmp_path: Path) -> None:
    (tmp_path / "worlds").mkdir()
    path = tmp_path / "worlds" / "port.json"
    path.write_text(json.dumps({"entries": {"0": entry(key=[]), "1": entry(key=[], uid=1)}}), encoding="utf-8")
    found = lint_file(path)[1]
    (tmp_path / ".tavernlint").write_text("# known\nworlds/*.json: NEVER_FIRES at /entries/1\nnonsense\n")
    told: list[str] = []
    kept, count = without_suppressed(path, found, warn=told.append)
    assert count == 1
    assert {each.where for each in found} - {each.where for each in kept} == {"/entries/1"}
    assert "line 3" in told[0]
    (tmp_path / ".tavernlint").write_text("*: *")
    assert without_suppressed(path, found)[0] == []


def test_findings_that_say_the_same_are_put_together(tmp_path: Path) -> None:
    path = tmp_path / "world.json"
    path.write_text(json.dumps({"entries": {str(n): entry(key=[], uid=n) for n in range(5)}}), encoding="utf-8")
    assert [count for each, count in grouped(lint_file(path)[1]) if each.code == "NEVER_FIRES"] == [5]


def test_tags_that_servers_add_to_chat_templates_are_known(tmp_path: Path) -> None:
    text = "{% for m in messages %}{% generation %}{{ m }}{% endgeneration %}{% break %}{% endfor %}"
    (tmp_path / "chat.jinja").write_text(text, encoding="utf-8")
    assert lint_file(tmp_path / "chat.jinja") == (FileKind.CHAT_TEMPLATE, [])


def test_a_missing_position_is_called_that() -> None:
    without = {key: value for key, value in entry().items() if key != "position"}
    (found,) = lint_world_book(WorldBook.from_json({"entries": {"0": without}}, name="book"))
    assert (found.code, found.message) == ("UNKNOWN_POSITION", "has no position")
