"""Profiles are data that users can change."""

from __future__ import annotations

import pytest

from tavernkit.cache import PROFILES
from tavernkit.cache._profiles import find_profile
from tavernkit.errors import ConfigError


@pytest.mark.parametrize("name", ["openai", "anthropic", "google", "deepseek", "openrouter", "llama_cpp", "vllm"])
def test_every_provider_has_a_profile_under_its_name(name: str) -> None:
    assert find_profile(name).name == name
    assert find_profile(PROFILES[name]) is PROFILES[name]


def test_an_unknown_profile_is_an_error_that_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'anthropic'"):
        find_profile("antropic")


def test_automatic_caches_have_a_minimum_and_whole_units() -> None:
    openai = PROFILES["openai"]
    assert [openai.cacheable(tokens) for tokens in (1023, 1024, 1151, 1152)] == [0, 1024, 1024, 1152]
    assert PROFILES["llama_cpp"].cacheable(7) == 7


def test_numbers_can_be_replaced() -> None:
    own = PROFILES["openai"].replace(read=0.5, minimum=1)
    assert own.cost(tokens=100, cached=40, written=60) == 80
    with pytest.raises(ConfigError, match=r"CacheProfile\.minimum"):
        own.replace(minimum=0)
    with pytest.raises(ConfigError, match=r"CacheProfile\.read"):
        own.replace(read=-1)
