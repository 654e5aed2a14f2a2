"""AES-256-GCM in plain Python, for preset files that RisuAI encrypts with a public key string.

It hides nothing and protects nothing: the key is part of the format. That is why no cryptographic library is needed
to read a preset, and why this code must not be used for secrets (it is not constant-time).
"""

from __future__ import annotations

import struct

TAG_BYTES = 16
_BLOCK = 16
_POLYNOMIAL = 0xE1 << 120


class SealBrokenError(ValueError):
    """The bytes were not sealed with this key, or were changed since."""


def _xtime(value: int) -> int:
    return ((value << 1) ^ 0x11B if value & 0x80 else value << 1) & 0xFF


def _make_sbox() -> bytes:
    box = bytearray(256)
    p = q = 1
    while True:
        p = p ^ _xtime(p)
        q ^= q << 1
        q ^= q << 2
        q ^= q << 4
        q &= 0xFF
        if q & 0x80:
            q ^= 0x09
        rotated = q ^ (q << 1 | q >> 7) ^ (q << 2 | q >> 6) ^ (q << 3 | q >> 5) ^ (q << 4 | q >> 4)
        box[p] = (rotated & 0xFF) ^ 0x63
        if p == 1:
            break
    box[0] = 0x63
    return bytes(box)


def _rotate(word: int, bits: int) -> int:
    return (word >> bits | word << (32 - bits)) & 0xFFFFFFFF


_SBOX = _make_sbox()
_MIX_0 = tuple((_xtime(s) << 24) | (s << 16) | (s << 8) | (_xtime(s) ^ s) for s in _SBOX)
_MIX_1, _MIX_2, _MIX_3 = (tuple(_rotate(word, bits) for word in _MIX_0) for bits in (8, 16, 24))


def _substitute(word: int) -> int:
    box = _SBOX
    return box[word >> 24] << 24 | box[word >> 16 & 255] << 16 | box[word >> 8 & 255] << 8 | box[word & 255]


def _expand_key(key: bytes) -> list[int]:
    words = list(struct.unpack(">8I", key))
    constant = 1
    for index in range(8, 60):
        word = words[-1]
        if index % 8 == 0:
            word = _substitute(_rotate(word, 24)) ^ (constant << 24)
            constant = _xtime(constant)
        elif index % 8 == 4:
            word = _substitute(word)
        words.append(words[index - 8] ^ word)
    return words


def _encrypt_block(words: list[int], block: bytes) -> bytes:
    a, b, c, d = (value ^ word for value, word in zip(struct.unpack(">4I", block), words, strict=False))
    t0, t1, t2, t3 = _MIX_0, _MIX_1, _MIX_2, _MIX_3
    for at in range(4, 56, 4):
        a, b, c, d = (
            t0[a >> 24] ^ t1[b >> 16 & 255] ^ t2[c >> 8 & 255] ^ t3[d & 255] ^ words[at],
            t0[b >> 24] ^ t1[c >> 16 & 255] ^ t2[d >> 8 & 255] ^ t3[a & 255] ^ words[at + 1],
            t0[c >> 24] ^ t1[d >> 16 & 255] ^ t2[a >> 8 & 255] ^ t3[b & 255] ^ words[at + 2],
            t0[d >> 24] ^ t1[a >> 16 & 255] ^ t2[b >> 8 & 255] ^ t3[c & 255] ^ words[at + 3],
        )
    box = _SBOX
    last = (
        (box[w >> 24] << 24 | box[x >> 16 & 255] << 16 | box[y >> 8 & 255] << 8 | box[z & 255]) ^ words[56 + index]
        for index, (w, x, y, z) in enumerate(((a, b, c, d), (b, c, d, a), (c, d, a, b), (d, a, b, c)))
    )
    return struct.pack(">4I", *last)


def _hash_table(key: int) -> list[list[int]]:
    """Products of the hash key with every byte in every position, so that a block takes sixteen lookups."""
    powers: list[int] = []
    for _ in range(128):
        powers.append(key)
        key = key >> 1 ^ _POLYNOMIAL if key & 1 else key >> 1
    table: list[list[int]] = []
    for place in range(16):
        row = [0] * 256
        for bit in range(8):
            row[0x80 >> bit] = powers[place * 8 + bit]
        for value in range(1, 256):
            lowest = value & -value
            row[value] = row[value ^ lowest] ^ row[lowest]
        table.append(row)
    return table


class _Gcm:
    def __init__(self, key: bytes, nonce: bytes) -> None:
        self._words = _expand_key(key)
        self._nonce = nonce
        self._table = _hash_table(int.from_bytes(_encrypt_block(self._words, bytes(_BLOCK)), "big"))

    def stream(self, data: bytes) -> bytes:
        """Encrypt or decrypt: the two are the same."""
        blocks = (len(data) + _BLOCK - 1) // _BLOCK
        stream = b"".join(self._counter(number) for number in range(2, blocks + 2))[: len(data)]
        return (int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(data), "big")

    def tag(self, sealed: bytes) -> bytes:
        digest = 0
        padded = sealed + bytes(-len(sealed) % _BLOCK) + struct.pack(">QQ", 0, len(sealed) * 8)
        for at in range(0, len(padded), _BLOCK):
            digest ^= int.from_bytes(padded[at : at + _BLOCK], "big")
            digest = self._multiply(digest)
        return (digest ^ int.from_bytes(self._counter(1), "big")).to_bytes(_BLOCK, "big")

    def _multiply(self, value: int) -> int:
        product = 0
        for row, byte in zip(self._table, value.to_bytes(_BLOCK, "big"), strict=True):
            product ^= row[byte]
        return product

    def _counter(self, number: int) -> bytes:
        return _encrypt_block(self._words, self._nonce + struct.pack(">I", number))


def seal(data: bytes, key: bytes, nonce: bytes) -> bytes:
    """Encrypt and put the tag at the end."""
    gcm = _Gcm(key, nonce)
    sealed = gcm.stream(data)
    return sealed + gcm.tag(sealed)


def unseal(data: bytes, key: bytes, nonce: bytes) -> bytes:
    """Check the tag and decrypt."""
    sealed, tag = data[:-TAG_BYTES], data[-TAG_BYTES:]
    gcm = _Gcm(key, nonce)
    if len(data) < TAG_BYTES or gcm.tag(sealed) != tag:
        raise SealBrokenError("the seal is broken")
    return gcm.stream(sealed)
