"""Limits on what this package keeps in memory."""

ESTIMATE_CACHE_SIZE = 16_384
"""Token counts that one estimator caches: enough for every block of a very large prompt, turn after turn."""

ESTIMATE_CACHE_CHARACTERS = 16_000_000
"""Total characters of the texts that one estimator caches."""

LONG_TEXT_CHARACTERS = 8_192
"""Longer texts are cached by digest and length, so that a cache never keeps big texts alive."""

MODEL_CACHE_SIZE = 256
"""Model names whose tokenizer is cached."""

MAX_TOKENIZER_FILE_BYTES = 128 * 1024 * 1024
"""Larger ``tokenizer.json`` files are refused; so are compressed ones that become larger."""

FILE_TOKENIZER_CACHE_SIZE = 16
"""Local ``tokenizer.json`` files that stay loaded."""

CACHED_TEXTS = 20_000
"""Lines, and words, whose token counts a tokenizer caches."""

CACHED_TEXT_CHARACTERS = 1_024
"""Longer lines and words are counted again each time."""

MAX_PART_CHARACTERS = 500_000
"""Characters of a text that are counted at once; longer texts are counted in parts."""
