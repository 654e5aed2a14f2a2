"""Mistakes of callers about contexts, and how pipelines show themselves."""

from __future__ import annotations

import pytest

from tavernkit.errors import ConfigError
from tavernkit.examples import example_path
from tavernkit.prompt._block import Block
from tavernkit.prompt._context import Context


def test_a_seed_is_a_number_or_a_text() -> None:
    assert Context(seed="x").seed == "x"
    with pytest.raises(ConfigError, match=r"seed must be a whole number, text or None, not float 1\.5"):
        Context.make(seed=1.5)


def test_a_context_is_made_of_a_mapping() -> None:
    assert Context.from_mapping({"message": "Hi"}).message == "Hi"


def test_a_block_knows_whether_it_stands_where_the_preset_says() -> None:
    assert Block(role="system", content="x", insertion_point="relative").relative
    assert not Block(role="system", content="x", insertion_point="in_chat").relative


def test_an_unknown_example_names_those_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"no example 'zoe\.json'; there are .*aria\.json"):
        example_path("zoe.json")
