from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from tavernkit.lore import _key_index as key_index
from tavernkit.lore._key_index import KeyIndex, stands_alone

alphabet = st.sampled_from("ab é龍🐉_\ud83d")
texts = st.text(alphabet, max_size=60)
keys = st.lists(st.tuples(st.text(alphabet, min_size=1, max_size=5), st.booleans()), max_size=12, unique=True)


@settings(max_examples=300, deadline=None)
@given(keys, texts, st.integers(0, 3))
def test_index_equals_looking_for_one_key_after_the_other(keys: list[tuple[str, bool]], text: str, copies: int) -> None:
    text = text * (1 + copies * 10)
    index = KeyIndex([key for key, _ in keys], whole_words=[at for at, (_, whole) in enumerate(keys) if whole])
    expected = {at: offset for at, (key, whole) in enumerate(keys) if (offset := first(key, whole, text)) >= 0}
    assert index.find(text) == expected


@settings(max_examples=300, deadline=None)
@given(keys, texts, st.integers(0, 3), st.sampled_from([2, 32]), st.sampled_from([5, 1024]))
def test_keys_that_are_taken_out_of_the_search_are_found_all_the_same(
    keys: list[tuple[str, bool]], text: str, copies: int, pattern: int, window: int
) -> None:
    with patch.multiple(
        key_index,
        MANY_PLACES=3,
        FREQUENT=2,
        FEW_KEYS=1,
        MANY_PATTERNS=3,
        LONG_WORD=3,
        PATTERN_CHARACTERS=pattern,
        WINDOW_CHARACTERS=window,
    ):
        test_index_equals_looking_for_one_key_after_the_other.hypothesis.inner_test(keys, text, copies)  # pyright: ignore[reportFunctionMemberAccess]


def first(key: str, whole: bool, text: str) -> int:
    places = (at for at in range(len(text)) if text.startswith(key, at))
    return next((at for at in places if not whole or stands_alone(text, at, at + len(key))), -1)
