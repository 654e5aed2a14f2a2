from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tavernkit.errors import TavernKitError
from tavernkit.risu_ai import Preset
from tavernkit.risu_ai._files.message_pack import MessagePackError, pack, unpack
from tavernkit.risu_ai._files.preset import SECRET_KEYS
from tavernkit.risu_ai._files.preset_file import read_preset, write_preset

KEYS = st.text(max_size=40).filter(lambda key: key != "__proto__")  # which RisuAI's reader renames
SAFE = st.integers(-(2**53) + 1, 2**53 - 1)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | SAFE | st.floats(allow_nan=False) | st.text(max_size=40) | st.binary(max_size=40),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(KEYS, inner, max_size=20),
    max_leaves=40,
)


@given(VALUES)
def test_what_is_packed_comes_back(value: Any):
    assert unpack(pack(value)) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes):
    with contextlib.suppress(MessagePackError):
        unpack(data)


@given(st.binary(max_size=200))
def test_any_file_is_read_or_refused_as_a_preset(data: bytes):
    with contextlib.suppress(TavernKitError):
        read_preset(data, warn=lambda _: None)


@given(st.dictionaries(KEYS, st.none() | st.booleans() | SAFE | st.text(max_size=20), max_size=8))
@example({"proxyKey": None})
def test_any_object_is_a_preset_that_comes_back_without_its_secrets(value: dict[str, Any]):
    preset = Preset.from_json(value, warn=lambda _: None)
    expected = {key: "" if key in SECRET_KEYS else item for key, item in preset.to_json().items()}
    for ending in (".json", ".risup"):
        assert read_preset(write_preset(preset, ending), warn=lambda _: None).to_json() == expected
