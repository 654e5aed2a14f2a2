"""The compatibility page says what the conformance tests hold to be true."""

from __future__ import annotations

from tests.docs.compatibility import ABOUT, PAGE, count, render


def test_the_compatibility_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(count()), "run `make tables`"


def test_every_surface_is_described() -> None:
    assert {row.surface for row in count()} == set(ABOUT)
