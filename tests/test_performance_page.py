"""``make performance``: the page's tables are those of the saved numbers, and what is measured exists."""

from __future__ import annotations

import importlib
from operator import attrgetter

import pytest

from benchmarks.performance_page.formats import growth_row, multiples, number, table
from benchmarks.performance_page.page import BATCHES, PAGE, PARTS, RUN, PageError, generated, parts_of, written
from benchmarks.performance_page.results import load
from benchmarks.performance_page.sections import SECTIONS
from benchmarks.turn_profile import PARTS as PROFILE


def test_the_page_shows_the_saved_numbers() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert written(text, load()) == text, "run `python -m benchmarks.performance_page --write`"


def test_every_part_of_the_page_comes_from_a_section() -> None:
    assert {section for section, _ in PARTS.values()} | {BATCHES} == set(SECTIONS)
    assert set(parts_of(PAGE.read_text(encoding="utf-8"))) == {*PARTS, BATCHES, RUN}


def test_a_page_needs_every_section() -> None:
    results = load()
    sections = {name: section for name, section in results["sections"].items() if name != "service"}
    with pytest.raises(PageError, match="not measured yet: service"):
        generated({**results, "sections": sections})


def test_numbers_that_were_only_tried_are_refused() -> None:
    results = load()
    tried = {name: {**run, "quick": True} for name, run in results["runs"].items()}
    with pytest.raises(PageError, match="only tried, with --quick: builds, "):
        generated({**results, "runs": tried})


def test_a_section_of_another_run_says_so() -> None:
    results = load()
    run = next(iter(results["runs"].values()))
    runs = {**results["runs"], "later": {**run, "date": "2030-01-02 03:04 UTC"}}
    sections = {**results["sections"], "profile": {**results["sections"]["profile"], "run": "later"}}
    made = generated({"runs": runs, "sections": sections})
    assert "from another run: 2030-01-02" in made["profile"]
    assert "from another run" not in made["service"]
    assert "Some sections are from other runs" in made[RUN]


@pytest.mark.parametrize("place", [place for places in PROFILE.values() for place in places])
def test_what_the_profile_names_exists(place: str) -> None:
    module, _, function = place.partition(":")
    imported = importlib.import_module(module)
    assert not function or callable(attrgetter(function)(imported))


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.4567, "0.46"), (6.84, "6.8"), (9.96, "10"), (34.4, "34"), (482.7, "483"), (1_042, "1,040"), (0.00001, "0")],
)
def test_numbers_have_two_or_three_digits(value: float, shown: str) -> None:
    assert number(value) == shown


def test_multiples_show_the_least_and_the_largest() -> None:
    assert multiples([1.41, 1.18, 1.3]) == "1.2–1.4"
    assert multiples([1.21, 1.19]) == "1.2"


def test_columns_are_aligned_as_their_names_say() -> None:
    assert table("operation | >ms", [["read", "2"]]) == "| operation | ms |\n|---|---:|\n| read | 2 |"


def test_growth_is_that_of_the_last_two_sizes() -> None:
    row = growth_row({"name": "n", "size_of": "s", "sizes": (1, 10, 100), "processor_ms": [5.0, 1.0, 10.0]})
    assert row == ["n", "s", "1 · 10 · 100", "5 · 1 · 10", "1.0"]
