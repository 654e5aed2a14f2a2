"""MessagePack and compressed bytes beyond plain JSON."""

from __future__ import annotations

import gzip
import math
import zlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tavernkit.errors import LimitExceededError
from tavernkit.risu_ai._files.compression import CompressionError, decompress, gunzip, salvage
from tavernkit.risu_ai._files.database_codec import parse
from tavernkit.risu_ai._files.message_pack import BigInteger, MessagePackError, pack, read_packed, unpack

LAUNCH = datetime(2024, 3, 7, 5, 4, 5, 678_000, tzinfo=UTC)


@given(st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)).map(lambda moment: moment.replace(tzinfo=UTC)))
def test_dates_come_back(moment: datetime) -> None:
    assert unpack(pack({"when": moment})) == {"when": moment}


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\xd6\xff" + int(LAUNCH.timestamp()).to_bytes(4, "big"), LAUNCH.replace(microsecond=0)),
        (b"\xd7\xff" + ((678_000_000 << 34) | int(LAUNCH.timestamp())).to_bytes(8, "big"), LAUNCH),
        (b"\xc7\x0c\xff" + bytes(4) + (2**62).to_bytes(8, "big"), None),
        (b"\x93\x01\xd4\x00\x00\x03", [1, None, 3]),
        (b"\x82\x05\xa1a\xa1b\xd4\x00\x00", {"5": "a"}),
        (b"\x82\xc3\x01\xcb\x3f\xf8" + bytes(6) + b"\x02", {"true": 1, "1.5": 2}),
        (b"\x81\xa9__proto__\x01", {"__proto_": 1}),
        (b"\x82\xa1a\x01\xa1a\x02", {"a": 2}),
    ],
)
def test_odd_values_are_read_as_javascript_has_them(data: bytes, value: object) -> None:
    assert read_packed(data).value == value


def test_64_bit_numbers_stay_apart_from_others() -> None:
    data = b"\x92\xcf" + bytes(7) + b"\x05\xce\x00\x00\x00\x05"
    (wide, narrow) = read_packed(data, big_integers=True).value  # type: ignore[misc]
    assert isinstance(wide, BigInteger)
    assert wide == narrow == 5
    assert not isinstance(narrow, BigInteger)


def test_numbers_beyond_53_bits_are_rounded_as_in_javascript() -> None:
    assert read_packed(b"\xcf" + b"\xff" * 8).value == 2.0**64
    assert read_packed(b"\xd3" + (-(2**53) - 1).to_bytes(8, "big", signed=True)).value == -(2.0**53)
    assert read_packed(b"\xcf" + b"\xff" * 8, big_integers=True).value == 2**64 - 1
    assert parse(b"[9007199254740993, 9007199254740991]") == [2.0**53, 2**53 - 1]


def test_numbers_are_written_that_no_double_can_hold() -> None:
    assert unpack(pack([10**400, -(10**400), 2**63, 0.5])) == [math.inf, -math.inf, 2.0**63, 0.5]


def test_damaged_data_gives_what_stands_before_the_damage() -> None:
    data = pack({"a": [1, {"b": "text"}], "c": 3})
    found = read_packed(data[:-3], salvage=True)
    assert found.value == {"a": [1, {"b": "text"}]}
    assert found.problem == "the data is cut off"
    with pytest.raises(MessagePackError):
        read_packed(b"\xc1", salvage=True)


def test_nesting_needs_no_stack_of_pythons() -> None:
    deep = b"\x91" * 5000 + b"\xc0"
    assert read_packed(deep, max_depth=5001).end == len(deep)
    with pytest.raises(MessagePackError, match="nests deeper"):
        read_packed(deep, max_depth=4999)


def test_values_that_nobody_can_read_are_not_written() -> None:
    with pytest.raises(MessagePackError, match="timedelta"):
        pack({"a": timedelta(1)})


TEXT = b"some text that is compressed" * 20


@pytest.mark.parametrize(
    "data",
    [gzip.compress(TEXT, mtime=0), zlib.compress(TEXT), zlib.compress(TEXT, wbits=-15)],
    ids=["gzip", "zlib", "deflate"],
)
def test_compressed_data_is_recognised_by_its_first_bytes(data: bytes) -> None:
    assert decompress(data, 10_000) == TEXT
    assert salvage(data[:-9], 10_000) == TEXT[: len(salvage(data[:-9], 10_000))]
    with pytest.raises(LimitExceededError):
        decompress(data, 100)
    with pytest.raises(CompressionError):
        decompress(data[:20], 10_000)


def test_a_checksum_counts_only_where_it_does_in_risu_ai() -> None:
    data = bytearray(gzip.compress(TEXT))
    data[-5] ^= 1
    assert decompress(bytes(data), 10_000) == TEXT
    with pytest.raises(CompressionError):
        gunzip(bytes(data), 10_000)
    with pytest.raises(CompressionError, match="after the gzip data"):
        gunzip(gzip.compress(TEXT) + b"x", 10_000)


def test_the_size_at_the_end_cuts_the_result() -> None:
    data = gzip.compress(TEXT)
    assert decompress(data[:-4] + (7).to_bytes(4, "little"), 10_000) == TEXT[:7]


def test_a_header_with_a_name_and_a_comment_is_skipped() -> None:
    plain = gzip.compress(TEXT)
    named = (
        plain[:3] + bytes([4 | 8 | 16 | 2]) + plain[4:10] + b"\2\0xy" + b"name\0" + b"comment\0" + b"zz" + plain[10:]
    )
    assert decompress(named, 10_000) == TEXT
