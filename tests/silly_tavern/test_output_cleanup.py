from __future__ import annotations

import pytest

from tavernkit.silly_tavern import CleanUp, InstructTemplate, PowerUser, clean_up
from tavernkit.silly_tavern.output_cleanup import trim_to_sentence


def cleaned(text: str, power_user: PowerUser | None = None, **options: object) -> str:
    given = CleanUp(user_name="Mira", character_name="Lyra", power_user=power_user or PowerUser())
    for name, value in options.items():
        object.__setattr__(given, name, value)
    return clean_up(text, given)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yes. And", "Yes."),
        ("Yes . And", "Yes"),
        (". And", "."),
        ("no mark  ", "no mark"),
        ("Yay 🎉 and", "Yay 🎉"),
        ("日本。そ", "日本。"),
        ("1 2 3", "1 2 3"),
        ("", ""),
    ],
)
def test_the_last_whole_sentence_stays(text: str, expected: str):
    assert trim_to_sentence(text) == expected


def test_a_begun_stop_string_goes_once():
    assert cleaned("Done<a><b>", stop_strings=["<a>", "<b>"]) == "Done<a>"
    assert cleaned("Done <|im_", stop_strings=["<|im_end|>"]) == "Done"
    assert cleaned("aab", stop_strings=["aba"]) == "a"


def test_sequences_are_cut_and_removed():
    instruct = InstructTemplate(input_sequence="<u>", output_sequence="<b>", stop_sequence="</s>")
    assert cleaned("<b>Hi<b> there</s> more", instruct=instruct) == "Hi there"
    assert cleaned("Hi<u> there", instruct=instruct) == "Hi"
    assert cleaned("a<b>", instruct=instruct, impersonate=True) == "a<b>"


def test_other_speakers_end_the_reply():
    assert cleaned("Hi\nMira: no") == "Hi"
    assert cleaned("Mira: no") == ""
    assert cleaned("Hi\nOrrin: no", members=["Lyra", "Orrin"]) == "Hi"
    assert cleaned("Lyra: Hi\nLyra:\n\nyes") == "Hi\nyes"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a \t\nb \r\nc ", "a\nb\r\nc"),
        ("a  \u2028b", "a\u2028b"),
        ("a \u2029 \u2028 b", "a\u2028 b"),
        ("a \u2028 \nb", "a\nb"),
    ],
)
def test_lines_lose_the_blanks_at_their_end(text: str, expected: str):
    assert cleaned(text) == expected


def test_emphasis_marks_hug_their_text():
    assert cleaned("* she waves * and ** runs **") == "*she waves* and **runs**"


def test_long_runs_of_blanks_cost_little():
    for text in (" " * 200_000 + "x", "*" + " " * 200_000 + "x*", ("* " * 50_000) + "x", "a" + "\n " * 50_000 + "x"):
        assert cleaned(text)
