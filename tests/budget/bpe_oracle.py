"""Byte-pair encoding the slow and obvious way: what tiktoken's algorithm says, to compare with.

Patterns are those tiktoken published, written for an ECMAScript engine; ranks come from the vocabulary under test.
"""

from __future__ import annotations

from functools import cache

import regress

from tavernkit.budget import get_tokenizer

# tiktoken's case folding also takes ſ for an s here; the bundled engine does not. It shows only in "'ſ" inside a word.
_CONTRACTION = "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"
_SPACE = r"\p{White_Space}"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_LEAD = r"[^\r\n\p{L}\p{N}]?"
_SPACES = rf"{_SPACE}*[\r\n]+|{_SPACE}+(?!\P{{White_Space}})|{_SPACE}+"

PATTERNS = {
    "cl100k_base": rf"{_CONTRACTION}|{_LEAD}\p{{L}}+|\p{{N}}{{1,3}}| ?[^{_SPACE}\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}",
    "o200k_base": rf"{_LEAD}{_UPPER}*{_LOWER}+(?:{_CONTRACTION})?|{_LEAD}{_UPPER}+{_LOWER}*(?:{_CONTRACTION})?"
    rf"|\p{{N}}{{1,3}}| ?[^{_SPACE}\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}",
}

VOCABULARY_SIZES = {"cl100k_base": 100_256, "o200k_base": 199_998}


def encode(name: str, text: str) -> list[int]:
    """Return the token ids of a text."""
    data = text.encode()
    pattern = _pattern(name)
    ids: list[int] = []
    for match in pattern.find_iter(text) or ():
        span = match.range()
        ids += _encode_piece(name, data[span.start : span.stop])
    return ids


@cache
def _pattern(name: str) -> regress.Regex:
    return regress.Regex(PATTERNS[name], "u")


@cache
def _ranks(name: str) -> dict[bytes, int]:
    tokenizer = get_tokenizer(name)
    return {tokenizer.token_bytes(token_id): token_id for token_id in range(VOCABULARY_SIZES[name])}


def _encode_piece(name: str, piece: bytes) -> list[int]:
    ranks = _ranks(name)
    parts = [piece[index : index + 1] for index in range(len(piece))]
    while True:
        best: tuple[int, int] | None = None
        for index in range(len(parts) - 1):
            rank = ranks.get(parts[index] + parts[index + 1])
            if rank is not None and (best is None or rank < best[0]):
                best = (rank, index)
        if best is None:
            return [ranks[part] for part in parts]
        index = best[1]
        parts[index : index + 2] = [parts[index] + parts[index + 1]]
