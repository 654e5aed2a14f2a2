"""Openers that nothing closes, wherever RisuAI looks for an opener, any text and a closer."""

from __future__ import annotations

import re

import pytest

from tavernkit.risu_ai._chat.prompt_message import take_inlays, take_thoughts
from tavernkit.risu_ai._files.silly_tavern_preset import read_st_files
from tavernkit.risu_ai._js import replace_delimited, replace_in_lines
from tavernkit.risu_ai._lorebook.keys import folded
from tavernkit.risu_ai._memory.contract import without_thoughts
from tavernkit.risu_ai._regex_scripts import hide_styles
from tavernkit.risu_ai._regex_scripts.script import RegexScript
from tests.quickness import linear_time

COUNT = 100_000
TAG = re.compile(r"<(.+?)>", re.DOTALL)
LINE_TAG = re.compile("<([^\n\r\u2028\u2029]+?)>")


@pytest.mark.parametrize(
    "text", ["", "a", "<", ">", "<>", "<>>", "<a>b<c", "<a\n>b<c>\r<d\u2028><e>", "<<a>>", ">a<b>"]
)
def test_delimited_replaces_what_the_pattern_itself_would(text: str) -> None:
    assert replace_delimited(TAG, ">", "[\\1]", text) == TAG.sub("[\\1]", text)
    assert replace_in_lines(LINE_TAG, ">", "[\\1]", text) == LINE_TAG.sub("[\\1]", text)


def test_openers_that_nothing_closes_take_no_time() -> None:
    with linear_time():
        assert take_inlays("{{inlay::" * COUNT + "\n}}")[1] == []
        assert folded("{{//a" * COUNT + "\n}}").endswith("\n}}")
        assert without_thoughts("<Thoughts>" * COUNT) == "<Thoughts>" * COUNT
        assert take_thoughts("<Thoughts>" * COUNT) == ("<Thoughts>" * COUNT, ())
        assert hide_styles("<risu-style>" * COUNT) == ("<risu-style>" * COUNT, [])
        assert RegexScript(flag="<" * COUNT, able_flag=True).compile().flags == "<" * COUNT
        story = {"story_string": "{{#if" * COUNT + "\n" + "{{" * COUNT, "chat_start": ""}
        assert read_st_files([story]).name
