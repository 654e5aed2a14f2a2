from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tavernkit.errors import WarningLog
from tavernkit.silly_tavern._chat.core_chat import inline_bias

PIECES = [
    "{{",
    "}}",
    "{{{",
    "}}}",
    "bias",
    " ",
    "'a'",
    '"',
    "#if",
    "/if",
    "else",
    "(",
    ")",
    "@",
    "..",
    "~",
    "\\",
    "1",
    "|",
]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=30).map("".join))
def test_any_message_is_read_for_its_bias_without_failing(message: str):
    warnings = WarningLog()
    bias = inline_bias(message, warnings)
    assert bias == "" or (bias.startswith(" ") and "bias" in message)
    assert not warnings.messages or bias == ""


@given(st.text(st.characters(exclude_characters='"\\', exclude_categories=["Cs"]), max_size=20))
def test_a_bias_is_taken_as_it_is_written(text: str):
    assert inline_bias(f'Go {{{{bias "{text}"}}}} on', WarningLog()) == f" {text}"
