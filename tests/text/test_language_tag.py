"""Language tags beyond the vectors."""

from __future__ import annotations

import pytest

from tavernkit._text.coerce import language_tag


@pytest.mark.parametrize("value", [None, 5, True, ["en"], b"en"])
def test_what_is_not_text_is_no_tag(value: object) -> None:
    assert language_tag(value) is None


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        ("\0en-gb\t", "en-GB"),
        ("sr_LATN_rs_EKAVSK_u_CO_phonebk_x_Mine", "sr-Latn-RS-ekavsk-u-co-phonebk-x-mine"),
        ("de-ch-1901", "de-CH-1901"),
        ("x-private", None),
        ("en-x", None),
        ("en-u-a", None),
        ("en-a-bb-a", None),
        ("en-ſs", None),
        ("en-\u0661\u0662\u0663", None),
    ],
)
def test_spelling(value: str, tag: str | None) -> None:
    assert language_tag(value) == tag
