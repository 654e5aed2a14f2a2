"""Our own patterns take no memory for each repetition of a group: Python's engine does unless groups are possessive."""

from __future__ import annotations

import base64
import re
import tracemalloc

import pytest

from tavernkit._text import strict_json
from tavernkit._text.js_regex import scanner
from tavernkit.cards._json_text import decode_payload
from tavernkit.cards._limits import DEFAULT_LIMITS
from tavernkit.prompt import _entry
from tavernkit.silly_tavern._conversation import commands
from tavernkit.silly_tavern._templates.handlebars import parser as handlebars
from tavernkit.silly_tavern._world_info import book_table
from tavernkit.vibe_tavern._directives import envelope
from tavernkit.vibe_tavern._liquid_macros import lax

TIMES = 50_000


@pytest.mark.parametrize(
    ("pattern", "start", "piece", "end"),
    [
        (scanner._LITERAL, "/", "a", "/g"),
        (scanner._LITERAL, "/", "[a]", "/g"),
        (scanner._LITERAL, "/[", "\\a", "]/g"),
        (_entry._PATTERN_REGEX, "/", "\\a", "/"),
        (strict_json._STRUCTURE, '"', "\\n", '"'),
        (handlebars._TOKEN, '"', "x", '"'),
        (handlebars._TOKEN, "[", "x", "]"),
        (book_table._WORDS, "a", " a", ""),
        (commands._NAMED, 'a="', "\\n", '"'),
        (envelope._STRUCTURE, '"', "\\n", '"'),
        (lax._PIPED, "", "a", ""),
        (lax._VALUE, "", "a", ""),
    ],
)
def test_a_repetition_takes_no_memory(pattern: re.Pattern[str], start: str, piece: str, end: str) -> None:
    """A key of 30 MB that looks like a regular expression took 4 GB, a string in a story string 800 bytes a letter."""
    text = start + piece * TIMES + end
    tracemalloc.start()
    found = pattern.match(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found is not None
    assert found.end() == len(text)
    assert peak < 10 * TIMES


@pytest.mark.parametrize(
    ("pattern", "text", "end"),
    [
        (book_table._WORDS, "a b  c", 3),
        (book_table._WORDS, "a b ", 3),
        (lax._VALUE, 'a"b', 1),
        (lax._VALUE, "a'b", 1),
    ],
)
def test_a_repetition_ends_where_the_last_whole_one_did(pattern: re.Pattern[str], text: str, end: int) -> None:
    """Python before 3.11.5 goes on where a possessive repetition failed halfway."""
    found = pattern.match(text)
    assert found is not None
    assert found.end() == end


def test_base64_with_a_break_behind_every_letter_takes_little_memory() -> None:
    text = base64.b64encode(b'{"a": "' + b"x" * TIMES + b'"}')
    for between in (b"\n", b"\n!"):
        data = between.join(text[at : at + 1] for at in range(len(text)))
        tracemalloc.start()
        found = decode_payload(data, what="card", limits=DEFAULT_LIMITS, warn=lambda _message: None)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert found == {"a": "x" * TIMES}
        assert peak < 8 * len(data)
