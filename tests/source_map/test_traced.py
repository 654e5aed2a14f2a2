"""Traced texts: whatever is done to them, each character still says where it stands."""

from __future__ import annotations

import copy
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tavernkit._text.traced import (
    Origin,
    Traced,
    added,
    expanded,
    group,
    join,
    pieces_of,
    plain,
    split,
    substitute,
    trace,
    tracing,
)
from tavernkit._text.traced_changes import align
from tavernkit.prompt._traced_spans import spans_of
from tavernkit.silly_tavern._macros.engine import MacroEngine
from tavernkit.silly_tavern._macros.environment import MacroEnvironment

TEXTS = st.text(alphabet="ab \n{}é", max_size=12)


def traced(text: str, name: str = "a") -> str:
    return trace(text, Origin("test", name, "", text))


def check(text: str) -> None:
    """Pieces cover the text, and those with an origin stand there."""
    at = 0
    for start, end, origin, offset, _ in pieces_of(text):
        assert start == at
        assert end > start
        at = end
        if origin is not None:
            assert origin.text[offset : offset + end - start] == plain(text)[start:end]
    assert at == len(text)


def all_known(text: str) -> bool:
    return all(origin is not None for _, _, origin, _, _ in pieces_of(text))


@given(TEXTS, TEXTS, TEXTS, st.integers(-14, 14), st.integers(-14, 14))
def test_what_is_done_to_a_traced_text_is_done_to_its_pieces(
    text: str, other: str, old: str, start: int, end: int
) -> None:
    with tracing():
        one, two = traced(text), traced(other, "b")
        for ours, theirs in (
            (one + two, text + other),
            (one + other, text + other),
            (text + two, text + other),
            (one[start:end], text[start:end]),
            (one.strip(), text.strip()),
            (one.strip("a"), text.strip("a")),
            (one.lstrip(), text.lstrip()),
            (one.rstrip(), text.rstrip()),
            (one.replace(old, two), text.replace(old, other)),
            (one.replace(old, "x", 1), text.replace(old, "x", 1)),
            (one.removeprefix(old), text.removeprefix(old)),
            (one.removesuffix(old), text.removesuffix(old)),
            (join(old, [one, two, one]), old.join([text, other, text])),
            (join("", [one, two]), text + other),
            (join(one, [two, two]), text.join([other, other])),
            (substitute(re.compile("a+"), "x", one), re.sub("a+", "x", text)),
            (f"{one}", text),
            (str(one), text),
        ):
            assert ours == theirs
            check(ours)
        for many, plain_ones in (
            (one.split("\n"), text.split("\n")),
            (one.split(), text.split()),
            (one.split("a", 1), text.split("a", 1)),
            (one.splitlines(), text.splitlines()),
            (one.splitlines(keepends=True), text.splitlines(keepends=True)),
            (list(one.partition("a")), list(text.partition("a"))),
            (list(one.rpartition("a")), list(text.rpartition("a"))),
            (split(re.compile("b+"), one), re.split("b+", text)),
        ):
            assert many == plain_ones
            for each in many:
                check(each)
                assert not each or all_known(each)


def test_without_tracing_nothing_is_kept() -> None:
    assert type(join(" ", ["a", "b"])) is str
    assert type(added("\n", "setting")) is str
    assert type(expanded("Ann", "user", "{{user}}")) is str


def test_a_change_is_remembered_with_what_stood_there() -> None:
    with tracing():
        written = traced("Hi {{user}}!")
        made = written[:3] + expanded(traced("Ann", "user"), "user", written[3:11]) + written[11:]
    assert made == "Hi Ann!"
    via = pieces_of(made)[1][4]
    assert via is not None
    assert (via.change.kind, via.change.name, via.change.text) == ("expanded", "user", "{{user}}")
    assert pieces_of(via.change.text)[0][3] == 3


def test_what_cannot_be_followed_is_compared() -> None:
    with tracing():
        made = align("The quick red fox", traced("The quick brown fox"))
        known = [(made[start:end], via) for start, end, origin, _, via in pieces_of(made) if origin is not None]
        assert [text for text, _ in known] == ["The quick ", " fox"]
        assert all(via is not None and via.change.kind == "aligned" for _, via in known)
        check(made)


def test_groups_of_a_match_are_cut_out_of_the_text() -> None:
    with tracing():
        text = traced("key: value")
        found = re.match(r"(\w+): (\w+)", text)
        assert found is not None
        assert pieces_of(group(found, 2, text))[0][3] == 5


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda text: pickle.loads(pickle.dumps(text))])
def test_copies_and_pickles_are_texts(copied: object) -> None:
    assert callable(copied)
    assert copied(traced("abc")) == "abc"
    assert type(pickle.loads(pickle.dumps(traced("abc")))) is str
    assert isinstance(traced("abc"), Traced)


TRACED_NAMES = MacroEnvironment(
    user_name=trace("Ann", Origin("user", "Ann", "/name", "Ann")),
    character_name=trace("Bel", Origin("card", "Bel", "/name", "Bel")),
)


@pytest.mark.parametrize(
    "text",
    [
        *("{{user}} meets {{char}}.", "{{ CHAR }}", "{{char}}{{user}}", "No{{char}}", "<USER> meets <BOT>."),
        *("{{#char}}", "{{char}}{{/char}}", "{{char::x}}", r"\{{{user}}\}", "{{user}}\n{{trim}}\n{{char}}"),
        *("{{user}} {{unknown}}", "{{user}} {{group}}", "{{{{char}}}}", "😀 {{user}}"),
    ],
)
def test_names_are_filled_into_a_text_as_it_is_expanded(text: str) -> None:
    """With the expansion of the plain text in its cache, an engine gives the same as one without."""
    written = trace(text, Origin("card", "Bel", "/description", text))
    fresh, known = MacroEngine(), MacroEngine()
    known.expand(text, MacroEnvironment(user_name="Ann", character_name="Bel"))
    with tracing():
        expected, found = (engine.expand(written, TRACED_NAMES) for engine in (fresh, known))
    assert found == expected
    assert spans_of(found) == spans_of(expected)


def test_names_are_filled_in_without_evaluating(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, text = MacroEngine(), "{{user}} meets {{char}}."
    engine.expand(text, MacroEnvironment(user_name="Ann", character_name="Bel"))
    monkeypatch.setattr(engine, "resolve", None)
    with tracing():
        found = engine.expand(trace(text, Origin("card", "", "", text)), TRACED_NAMES)
    assert found == "Ann meets Bel."
    assert [span.name for span in spans_of(found)] == ["user", "", "char", ""]
