"""How much the budget room may hold in memory."""

ESTIMATE_CACHE_SIZE = 16_384
"""Token counts that one estimator remembers: enough for every block of a very large prompt, turn after turn."""

ESTIMATE_CACHE_CHARACTERS = 16_000_000
"""Characters of all texts that one estimator remembers, together."""

LONG_TEXT_CHARACTERS = 8_192
"""Longer texts are remembered by digest and length, so that a cache never keeps big texts alive."""

MODEL_CACHE_SIZE = 256
"""Model names whose tokenizer choice is remembered."""

FILE_TOKENIZER_CACHE_SIZE = 16
"""Local ``tokenizer.json`` files that stay loaded."""

CACHED_TEXTS = 20_000
"""Lines, and words, whose token counts a tokenizer remembers."""

CACHED_TEXT_CHARACTERS = 1_024
"""Longer lines and words are counted again each time."""
