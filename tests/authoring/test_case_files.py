"""Test files of authors: what they may say, and what is said of mistakes in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tavernkit.authoring import (
    CaseFileError,
    CaseResult,
    Check,
    Expectations,
    TextExpectation,
    case_schema,
    check_plan,
    read_cases,
    results_as_json,
    results_as_junit,
)
from tavernkit.examples import example_path
from tavernkit.prompt import Block, Plan

SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "tavern-test.schema.json"


def written(folder: Path, text: str) -> Path:
    path = folder / "a.tavern.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_is_read_with_its_defaults_and_for_each_platform(tmp_path: Path) -> None:
    card = example_path("aria.json")
    cases = read_cases(
        written(
            tmp_path,
            f"""
defaults: {{card: {card}, seed: 3, user: Ann}}
tests:
  - name: one
    platforms: [silly_tavern, risu_ai]
    user: Bea
    chat: [Hello, {{char: Hi}}]
    expect: {{fires: 7, contains: [{{text: x, role: user, depth: 1, before: y}}], macros: {{"{{{{user}}}}": Bea}}}}
""",
        )
    )
    assert [case.platform for case in cases] == ["silly_tavern", "risu_ai"]
    case = cases[0]
    assert case.inputs == {"card": card, "seed": 3, "user": "Bea"}
    assert case.chat == (("user", "Hello"), ("char", "Hi"))
    assert case.expect.fires == ("7",)
    assert (case.expect.contains[0].role, case.expect.contains[0].depth) == ("user", 1)
    assert case.expect.macros == (("{{user}}", "Bea"),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tests: []", "tests must be a list of tests"),
        ("test: []", "did you mean 'tests'?"),
        ("tests: [{expect: {fire: [x]}}]", "did you mean 'fires'?"),
        ("tests: [{mesage: x, expect: {fires: x}}]", "did you mean 'message'?"),
        ("tests: [{expect: {}}]", "at least one of fires"),
        ("tests: [{expect: {max_tokens: many}}]", "a whole number"),
        ("tests: [{card: nowhere.json, expect: {fires: x}}]", "which is not there"),
        (f"tests: [{{card: {'9' * 400}, expect: {{fires: x}}}}]", "which is not there"),
        ('tests: [{card: "a\\0b", expect: {fires: x}}]', "which is not there"),
        ("tests: [{platforms: [tavern], expect: {fires: x}}]", "silly_tavern and risu_ai"),
        ("tests: [{chat: [{bot: x}], expect: {fires: x}}]", "has no 'bot'"),
        ("tests: [{chat: 5, expect: {fires: x}}]", "a file or a list"),
        ("tests: [{expect: {contains: [{text: x, role: boss}]}}]", "one of system, user, assistant"),
        ("tests: [{allow_scripts: maybe, expect: {fires: x}}]", "true or false"),
        ("tests: [{expect: {scripts: {text: a, gives: b, placement: moon}}}]", "one of user_input"),
        ("a: [", "YAML"),
        ("- 1", "must be a mapping"),
    ],
)
def test_mistakes_are_named_with_their_place(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(CaseFileError) as caught:
        read_cases(path)
    assert str(path) in str(caught.value)
    assert said in str(caught.value)


def test_the_published_schema_is_the_one_of_the_reader() -> None:
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == case_schema()


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        ({"text": "lamp", "before": "door"}, True),
        ({"text": "lamp", "after": "door"}, True),
        ({"text": "key", "before": "door"}, False),
        ({"text": "sea", "after": "door"}, False),
        ({"text": "sea", "after": "ship"}, False),
    ],
)
def test_texts_that_occur_twice_are_before_and_after_others(given: dict[str, Any], passed: bool) -> None:
    plan = Plan(blocks=[Block("system", "sea lamp door lamp"), Block("user", "key")])
    expected = TextExpectation(**given)
    (contained,) = check_plan(Expectations(contains=[expected]), plan, [])
    (lacking,) = check_plan(Expectations(lacks=[expected]), plan, [])
    assert (contained.passed, lacking.passed) == (passed, not passed)


def test_results_are_written_for_programs() -> None:
    file = Path("a.tavern.yaml")
    results = [
        CaseResult(file, "good", "risu_ai", [Check("x fires", passed=True)]),
        CaseResult(file, "bad", "risu_ai", [Check("y fires", passed=False, reason="no key")]),
        CaseResult(file, "broken", "", error="cannot be read"),
    ]
    told = results_as_json(results)
    assert (told["schema_version"], told["passed"], told["failed"]) == (1, 1, 2)
    root = ElementTree.fromstring(results_as_junit([results[0], results[2]]))
    suite = root[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "0", "1")
    assert suite[1][0].get("message") == "cannot be read"
    odd = CaseResult(file, "b\x01\ud800d", "risu_ai", [Check("y fires", passed=False, reason="no\x01 \uffff key")])
    failed = ElementTree.fromstring(results_as_junit([odd]).encode())[0][0]
    assert failed.get("name") == "b\ufffd\ufffdd (risu_ai)"
    assert failed[0].text == "y fires: no\ufffd \ufffd key"
