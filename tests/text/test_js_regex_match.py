from __future__ import annotations

import pytest

from tavernkit._text.js_regex import JSRegex


@pytest.mark.parametrize(
    ("start", "template", "text"),
    [(0, "<$1>", "<a>ba"), (1, "<$1>", "ab<a>"), (1, "$`|$'", "abab|"), (0, "$$", "$ba")],
)
def test_one_match_is_replaced_in_its_text(start: int, template: str, text: str) -> None:
    found = JSRegex.compile("(a)").search("aba", start)
    assert found is not None
    assert found.replaced(template) == text
