import pytest

from tavernkit.errors import ConfigError
from tavernkit.lore._key_index import PATTERN_CHARACTERS, WINDOW_CHARACTERS, KeyIndex
from tests.quickness import linear_time


def test_finds_every_key_with_its_first_offset() -> None:
    index = KeyIndex(["cat", "at", "dog", "cats"])
    assert index.find("a cat, two cats") == {0: 2, 1: 3, 3: 11}


def test_empty_index_and_empty_text_find_nothing() -> None:
    assert KeyIndex([]).find("anything") == {}
    assert KeyIndex(["a"]).find("") == {}
    assert len(KeyIndex([])) == 0


def test_empty_key_is_a_programming_error() -> None:
    with pytest.raises(ConfigError, match="at least one character"):
        KeyIndex(["a", ""])


def test_same_text_may_be_wanted_as_word_and_as_part() -> None:
    index = KeyIndex(["cat", "cat"], whole_words=[1])
    assert index.find("concat") == {0: 3}
    assert index.find("concat cat") == {0: 3, 1: 7}


def test_word_characters_are_those_of_ascii_unless_said_otherwise() -> None:
    assert KeyIndex(["cat"], whole_words=[0]).find("écaté") == {0: 1}
    assert KeyIndex(["cat"], whole_words=[0], word_characters=frozenset("é")).find("écat xcatx") == {0: 6}


def test_offsets_count_characters_not_bytes() -> None:
    assert KeyIndex(["龍"]).find("🐉é龍") == {0: 2}


def test_long_keys_are_compared_to_their_end() -> None:
    start = "x" * PATTERN_CHARACTERS
    index = KeyIndex([start + "a", start + "b", start])
    assert index.find("-" + start + "b") == {1: 1, 2: 1}


def test_keys_across_the_edge_of_a_window_are_found() -> None:
    key = "k" * (PATTERN_CHARACTERS + 20)
    for shift in range(-60, 3):
        offset = WINDOW_CHARACTERS + shift
        text = "." * offset + key + "." * 10
        assert KeyIndex([key, "k.", "zz"]).find(text) == {0: offset, 1: offset + len(key) - 1}


def test_lone_surrogates_neither_break_nor_match_by_accident() -> None:
    index = KeyIndex(["\ud83d", "\ufffd", "cat"], whole_words=[0])
    assert index.find("x\ud83d cat") == {2: 3}
    assert index.find(" \ud83d cat") == {0: 1, 2: 3}


def test_many_nested_keys_stay_cheap() -> None:
    keys = ["a" * length for length in range(1, 400)]
    found = KeyIndex(keys).find("a" * 3000)
    assert found == dict.fromkeys(range(399), 0)


SAME = "the ancient kingdom of the north, "


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        pytest.param([f"{SAME}{number}" for number in range(20_000)], SAME * 20_000, id="keys that begin alike"),
        pytest.param(["a" * length for length in range(1, 33)], "a" * 1_000_000, id="keys inside each other"),
        pytest.param(["a" * 250_000], "a" * 500_000, id="a long key that overlaps itself"),
        pytest.param(["\ud83d" * 250_000], "a" + "\ud83d" * 500_000, id="halves of characters"),
    ],
)
@pytest.mark.parametrize("whole_words", [False, True])
def test_time_is_that_of_the_text(keys: list[str], text: str, whole_words: bool) -> None:
    with linear_time():
        found = KeyIndex(keys, whole_words=range(len(keys)) if whole_words else ()).find(text)
    assert all(text.startswith(keys[number], offset) for number, offset in found.items())


def test_keys_with_numbers_are_compiled_in_linear_time() -> None:
    with linear_time():
        index = KeyIndex([f"a{number}" for number in range(100_000)])
    assert index.find("a99999 " + "\0" * 5000) == {99_999: 0, 9999: 0, 999: 0, 99: 0, 9: 0}
