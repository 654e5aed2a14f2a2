"""Rules of regex scripts that the vectors show only apart from each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tavernkit.silly_tavern._macros import MacroEngine, MacroEnvironment
from tavernkit.silly_tavern._scripts.regex_replacement import regex_from_string
from tavernkit.silly_tavern._scripts.regex_scripts import RegexScript, RegexScripts, migrate_script

ENGINE = MacroEngine()
ANN = MacroEnvironment(user_name="Ann", character_name="Bel")


def expand(text: str, /, *, character: str | None = None, escape: Callable[[str], str] | None = None) -> str:
    return ENGINE.expand(text, ANN, character_name=character, post_process=escape, warn=lambda _message: None)


def script(find: str, replacement: str, **fields: Any) -> RegexScript:
    raw = {"findRegex": find, "replaceString": replacement, "placement": [2], **fields}
    return RegexScript.from_json(raw)


@pytest.mark.parametrize(
    ("text", "source", "flags"),
    [
        ("/a/b/c/g", "a/b/c", "g"),
        ("x/y/g", "x/y/g", ""),
        ("/a/\n/b/g", "a", ""),
        ("///g", "/", "g"),
        ("/a/mg extra", "a", "gm"),
        ("/a/gg", "/a/gg", ""),
        ("/a/G", "/a/G", ""),
        ("/(/y", None, None),
        ("/a/gX", None, None),
        ("\n", None, None),
    ],
)
def test_patterns(text: str, source: str | None, flags: str | None) -> None:
    regex = regex_from_string(text)
    assert (None if regex is None else (regex.source, regex.flags)) == (None if source is None else (source, flags))


@pytest.mark.parametrize(
    ("find", "replacement", "text", "result"),
    [
        ("/(?<n>a)(b)?/g", "[$<n>$2|$3|$4|$<no>]", "🦊ab", "🦊[ab|2|🦊ab|]"),
        ("/a/g", "$00$01$<>$$$&", "xaa", "xa1$<>$$$&a2$<>$$$&"),
        ("/a(.*)b/", "{{MATCH}}{{user}}$1", "{{user}} a{{char}}b", "{{user}} aBelbAnnBel"),
        ("/x*/g", "-", "axb", "-a--b-"),
    ],
)
def test_replacements(find: str, replacement: str, text: str, result: str) -> None:
    assert script(find, replacement).run(text, expand=expand) == result


@pytest.mark.parametrize(("character", "result"), [(None, "Cy: |Bel"), ("Cy", "Bel: |Bel"), ("", "CyBel|Bel")])
def test_only_trim_strings_know_another_character(character: str | None, result: str) -> None:
    trimming = script("/(.+)/", "$1|{{char}}", trimStrings=["{{char}}: "])
    assert trimming.run("Cy: Bel: ", expand=expand, character=character) == result


@pytest.mark.parametrize(
    ("mode", "found"), [(0, "{{user}}"), (1, "ABC"), ("1", "ABC"), (2, "A.C"), (5, "{{user}}"), (None, "{{user}}")]
)
def test_macros_in_a_pattern(mode: object, found: str) -> None:
    def named(text: str, /, *, character: str | None = None, escape: Callable[[str], str] | None = None) -> str:
        return text.replace("{{user}}", escape("A.C") if escape else "A.C")

    text = "{{user}} ABC A.C"
    assert script("{{user}}", "!", substituteRegex=mode).run(text, expand=named) == text.replace(found, "!", 1)


@pytest.mark.parametrize(
    ("limits", "depth", "runs"),
    [
        ({"minDepth": -2, "maxDepth": -1}, 5, True),
        ({"minDepth": -1}, -1, True),
        ({"minDepth": 0}, -1, False),
        ({"minDepth": "2", "maxDepth": "3"}, 2, True),
        ({"minDepth": "2", "maxDepth": "3"}, 4, False),
        ({"minDepth": "x", "maxDepth": "y"}, 1, True),
        ({"minDepth": 9}, None, True),
    ],
)
def test_depths(limits: dict[str, object], depth: float | None, runs: bool) -> None:
    assert script("a", "b", **limits).applies_to(2, depth=depth) is runs


def test_each_script_works_on_what_the_one_before_made() -> None:
    scripts = RegexScripts(
        global_=(script("/$/", "g"), script("a", "b", disabled=True)),
        preset=(script("/$/", "p"),),
        scoped=(script("/$/", "s"), script("gps", "G P S")),
    )
    assert scripts.apply("a", 2, expand=expand) == "aG P S"
    assert scripts.apply("a", None, expand=expand) == scripts.apply("a", 1, expand=expand) == "a"
    assert scripts.apply(5, None, expand=expand) == ""


@pytest.mark.parametrize(
    ("placement", "migrated", "both"),
    [([0, 4], [3], True), ([4, 0, 1], [1], True), ("2", [], False), ([2, 5], [2, 5], False)],
)
def test_migration_of_two_old_placements(placement: object, migrated: list[int], both: bool) -> None:
    result = migrate_script({"id": "i", "placement": placement, "promptOnly": False}, new_id=lambda: "new")
    assert (result["id"], result["placement"]) == ("i", migrated)
    assert (result["promptOnly"], result.get("markdownOnly", False)) == (both, both)


def test_old_placements_of_global_scripts_are_migrated_when_settings_are_read() -> None:
    old = [{"findRegex": "/a/g", "replaceString": "b", "placement": [0]}, {"placement": [4]}, {"placement": "x"}, 5]
    problems: list[str] = []
    scripts = RegexScripts.from_settings(
        {"regex": old}, card_data={"extensions": {"regex_scripts": old[:1]}}, warn=problems.append
    )
    assert [each.placement for each in (*scripts.global_, *scripts.scoped)] == [(1, 2, 3, 5, 6), (3,), (), (0,)]
    assert scripts.apply("a", 1, expand=expand, is_prompt=True) == "b"
    assert scripts.global_[0].id == ""
    assert len(problems) == 1
