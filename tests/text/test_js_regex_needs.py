"""Texts that a pattern cannot do without: where they are missing, the engine is not asked."""

from __future__ import annotations

import pytest

from tavernkit._text.js_regex import JSRegex
from tavernkit._text.js_regex.analysis import begins_with_characters, needs_of
from tavernkit._text.js_regex.syntax import parse_pattern


@pytest.mark.parametrize(
    ("source", "flags", "needs"),
    [
        ("\\bElf\\b", "", ("Elf",)),
        ("\\bElf\\b", "i", ("elf",)),
        (".*(?:cat|Dog)s?", "", ("cat", "Dog")),
        (".*(?:cat|dog|)", "", ()),
        ("\\s+(x+yz){2}", "", ("yz",)),
        ("\\s+(x+yz)?", "", ()),
        ("\\w+(?=end)", "", ()),
        ("\\b(?i:Elf)", "", ("elf",)),
        ("\\bskies", "iu", ("kie",)),
        ("\\bskies", "u", ("skies",)),
        ("\\b(?:" + "|".join("abcdefghijklmnopq") + ")", "", ()),
        ("\\bé😀", "", ()),
    ],
)
def test_what_a_pattern_needs(source: str, flags: str, needs: tuple[str, ...]) -> None:
    assert needs_of(parse_pattern(source, flags)) == needs


@pytest.mark.parametrize("source", ["elf", "(elf|orc)", "x+y", "(?:ab){2}"])
def test_the_engine_looks_for_first_characters_itself(source: str) -> None:
    assert begins_with_characters(parse_pattern(source, "").root)


@pytest.mark.parametrize("source", ["\\belf", ".elf", "x*elf", "", "(?=e)elf", "elf|.", "[ab]elf", "^elf"])
def test_and_for_nothing_else(source: str) -> None:
    assert not begins_with_characters(parse_pattern(source, "").root)


def test_a_slow_pattern_takes_no_time_where_it_has_no_chance() -> None:
    text = "nothing of that kind " * 10_000
    warnings: list[str] = []
    for regex in (JSRegex(".*smiles.*", "g"), JSRegex("[^\\n]+: SMILES", "gi")):
        assert regex.search(text, warn=warnings.append) is None
        assert regex.find_all(text, warn=warnings.append) == []
        assert regex.replace(text, "x", warn=warnings.append) == text
        assert regex.split(text, warn=warnings.append) == [text]
        assert regex.search(text, 5, warn=warnings.append) is None
    assert warnings == []


@pytest.mark.parametrize("text", ["She SMILES.", "Elle sourit: SMILES é", "😀 smiles"])
def test_case_is_ignored_where_the_pattern_ignores_it(text: str) -> None:
    assert JSRegex("\\bsmiles", "i").test(text)
    assert JSRegex("\\bsmiles", "iu").find_all(text) != []
    assert JSRegex("\\bSmiles").test(text.lower()) is False


def test_letters_with_variants_beyond_ascii_are_found() -> None:
    assert JSRegex("\\w*ſtone", "iu").test("stone")
    assert JSRegex("\\W*stone", "iu").test("ſtone")
    assert JSRegex("\\W*kelvin", "iu").test("\u212aelvin")
