from __future__ import annotations

import copy
from typing import Any

import pytest

from tavernkit.cards import Character, Severity, load, validate, validate_file
from tests.cards.files import FILES, card


def found(source: Any) -> set[tuple[str, str, str]]:
    return {(problem.code, problem.pointer, problem.severity.value) for problem in validate(source)}


@pytest.mark.parametrize("name", ["v2.json", "v3.json", "v2_book.json"])
def test_a_good_card_has_no_problem(name: str) -> None:
    assert validate(card(name)) == []
    assert validate(Character.from_card(card(name))) == []
    assert validate(load(FILES / name)) == []


def changed(**fields: Any) -> Any:
    source = copy.deepcopy(card("v3.json"))
    source["data"].update(fields)
    return source


def entry(**fields: Any) -> Any:
    base = {"keys": ["a"], "content": "c", "extensions": {}, "enabled": True, "insertion_order": 1, "use_regex": False}
    return changed(character_book={"extensions": {}, "entries": [base | fields]})


def asset(**fields: Any) -> Any:
    return changed(assets=[{"type": "icon", "uri": "ccdefault:", "name": "main", "ext": "png"} | fields])


ENTRY = "/data/character_book/entries/0"
ASSET = "/data/assets/0"


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (changed(name=""), ("BLANK_NAME", "/data/name", "error")),
        (changed(name="CON"), ("NO_FILE_NAME", "/data/name", "error")),
        (changed(name=7), ("WRONG_TYPE", "/data/name", "error")),
        (changed(tags="a,b"), ("WRONG_TYPE", "/data/tags", "error")),
        (changed(extensions=None), ("NULL_FIELD", "/data/extensions", "error")),
        (changed(extensions=[]), ("WRONG_TYPE", "/data/extensions", "error")),
        (changed(alternate_greetings=["a", ""]), ("EMPTY_GREETING", "/data/alternate_greetings/1", "warning")),
        (changed(creation_date=float("inf")), ("WRONG_TYPE", "/data/creation_date", "warning")),
        (changed(creation_date=1700000000000), ("MILLISECONDS", "/data/creation_date", "warning")),
        (changed(modification_date="soon"), ("WRONG_TYPE", "/data/modification_date", "warning")),
        (changed(first_mes=""), ("NO_GREETING", "/data/first_mes", "info")),
        (changed(extensions={"talkativeness": 3}), ("OUT_OF_RANGE", "/data/extensions/talkativeness", "warning")),
        (
            changed(extensions={"depth_prompt": {"role": "narrator"}}),
            ("UNKNOWN_ROLE", "/data/extensions/depth_prompt/role", "warning"),
        ),
        (changed(character_book={"entries": {}}), ("WRONG_TYPE", "/data/character_book/entries", "error")),
        (changed(character_book={"entries": []}), ("MISSING_FIELD", "/data/character_book/extensions", "error")),
        (changed(character_book={"extensions": {}, "entries": [1]}), ("WRONG_TYPE", ENTRY, "error")),
        (entry(keys=[]), ("NEVER_ACTIVE", f"{ENTRY}/keys", "warning")),
        (entry(keys="a"), ("WRONG_TYPE", f"{ENTRY}/keys", "error")),
        (entry(keys=["/(/"]), ("BAD_REGEX", f"{ENTRY}/keys/0", "error")),
        (entry(keys=["["], use_regex=True), ("BAD_REGEX", f"{ENTRY}/keys/0", "error")),
        (entry(keys=[" a"]), ("BLANKS_AROUND_KEY", f"{ENTRY}/keys/0", "info")),
        (entry(content=" "), ("EMPTY_CONTENT", f"{ENTRY}/content", "warning")),
        (entry(content="@@depht 3\ntext"), ("UNKNOWN_DECORATOR", f"{ENTRY}/content", "info")),
        (entry(position="middle"), ("WRONG_TYPE", f"{ENTRY}/position", "warning")),
        (entry(selective=True), ("NO_SECONDARY", f"{ENTRY}/secondary_keys", "info")),
        (asset(type="portrait"), ("UNKNOWN_ASSET_TYPE", f"{ASSET}/type", "warning")),
        (asset(uri="file:///etc/passwd"), ("BAD_URI", f"{ASSET}/uri", "error")),
        (asset(uri="embeded://../x.png"), ("UNSAFE_PATH", f"{ASSET}/uri", "error")),
        (asset(ext=".PNG"), ("BAD_EXT", f"{ASSET}/ext", "warning")),
        (
            changed(assets=[{"type": "icon", "uri": "ccdefault:", "name": "main", "ext": "png"}] * 2),
            ("SEVERAL_MAIN_ICONS", "/data/assets", "warning"),
        ),
        (card("v3.json") | {"spec": "chara_card_v9"}, ("UNKNOWN_SPEC", "/spec", "error")),
        (card("v3.json") | {"spec_version": "3.5"}, ("SPEC_VERSION", "/spec_version", "info")),
        (card("v2.json") | {"spec_version": 2}, ("SPEC_VERSION", "/spec_version", "error")),
        (card("v2_nodata.json"), ("NO_DATA", "/data", "error")),
        (card("v2_mirror.json"), ("STALE_COPY", "/description", "info")),
        (card("v2_sparse.json"), ("MISSING_FIELD", "/data/extensions", "error")),
        (card("v2_sparse.json"), ("MISSING_FIELD", "/data/tags", "warning")),
        (card("v1.json"), ("OLD_VERSION", "", "info")),
        (card("pyg.json"), ("OLD_KEY", "/char_name", "info")),
        ([], ("NOT_A_CARD", "", "error")),
    ],
)
def test_each_problem_is_named_with_its_place_and_weight(source: Any, problem: tuple[str, str, str]) -> None:
    assert problem in found(source)


def test_a_v3_field_in_a_v2_card_is_noticed() -> None:
    source = card("v2.json")
    source["data"]["nickname"] = "N"
    assert ("NEWER_FIELD", "/data/nickname", "info") in found(source)


def test_a_constant_entry_or_one_with_decorators_needs_no_key() -> None:
    for source in (entry(keys=[], constant=True), entry(keys=[], content="@@activate\ntext")):
        assert not any(code == "NEVER_ACTIVE" for code, _, _ in found(source))


def test_every_problem_says_what_is_expected() -> None:
    problems = validate(entry(keys=["/(/"], content=""))
    assert all(problem.message and problem.expected for problem in problems)
    assert {problem.severity for problem in problems} == {Severity.ERROR, Severity.WARNING}


@pytest.mark.parametrize(
    ("name", "code"),
    [("bad.json", "UNREADABLE_FILE"), ("noid.json", "NOT_A_CARD"), ("c_bomb.charx", "LIMIT_EXCEEDED")],
)
def test_a_file_that_cannot_be_loaded_is_one_problem(name: str, code: str) -> None:
    assert [(problem.code, problem.pointer) for problem in validate_file(FILES / name)] == [(code, "")]


def test_damage_of_the_file_is_among_the_problems() -> None:
    problems = validate_file(FILES / "p_crc.png")
    assert [(problem.code, problem.severity) for problem in problems] == [("READ_WITH_WARNING", Severity.WARNING)]


def test_a_lone_lore_book_is_checked_too() -> None:
    data = b'{"spec": "lorebook_v3", "data": {"entries": [{"keys": []}]}}'
    assert ("NEVER_ACTIVE", "/data/entries/0/keys") in {(p.code, p.pointer) for p in validate_file(data)}
