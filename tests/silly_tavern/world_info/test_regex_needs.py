import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tavernkit._text.js_regex import JSRegex, JSRegexSyntaxError
from tavernkit.silly_tavern._world_info.key_table import regex_needs


@pytest.mark.parametrize(
    ("source", "flags", "needs"),
    [
        ("Dragon", "", ("dragon",)),
        (r"\b(?:dragon|wyvern)s?\b", "i", ("dragon", "wyvern")),
        ("[Dd]ragon", "", ("ragon",)),
        ("(cat|dog)? food", "", (" food",)),
        ("(?:abc)+d", "", ("abc",)),
        ("glass", "iu", ("gla",)),
        ("glass", "i", ("glass",)),
        ("(?=dragon)dr", "", None),
        ("(?!dragon).", "", None),
        ("dragon|x*", "", None),
        ("(?:dragon)?", "", None),
        ("(?:dragon){0,3}", "", None),
        ("ab", "", None),
        ("drag\\non", "", ("drag",)),
        ("龍龍龍龍", "", None),
        ("|".join(f"word{number}" for number in range(40)), "", None),
    ],
)
def test_needs(source: str, flags: str, needs: tuple[str, ...] | None) -> None:
    assert regex_needs(JSRegex.compile(source, flags)) == needs


parts = st.sampled_from(
    ["cat", "Cat", "(cat|dog)", "[ck]at", "s", "ſ", "?", "+", "*", ".", "\\b", "^", "(", ")", "|", "K"]
)
subject = st.lists(st.sampled_from(["cat", "CAT", "dog", "ſ", "s", "K", "k", "at", " "]), max_size=6).map("".join)


@settings(max_examples=300, deadline=None)
@given(st.lists(parts, min_size=1, max_size=6).map("".join), st.sampled_from(["", "i", "iu", "u"]), subject)
def test_what_matches_holds_what_is_needed(source: str, flags: str, text: str) -> None:
    try:
        regex = JSRegex.compile(source, flags)
    except JSRegexSyntaxError:
        return
    needs = regex_needs(regex)
    if needs is not None and regex.test(text):
        assert any(need in text.lower() for need in needs)
