"""Limits of builds, well above normal use; hitting one is reported."""

from __future__ import annotations

MAX_INJECTION_DEPTH = 10_000
"""The deepest position in the chat that SillyTavern uses for injections (inclusive)."""

MAX_CHAT_FILE_BYTES = 512 * 1024 * 1024
"""A chat file larger than this is not read."""
MAX_CHAT_LINES = 100_000
"""In a longer chat only the last lines are read; the others stay in the file."""

MAX_ATTACHMENT_BYTES = 64 * 1024 * 1024
"""A file that is attached to a chat and larger than this is not read."""

TOKEN_CACHE_SIZE = 16_384
"""How many token counts a builder caches."""

CACHED_COUNTERS = 32
"""For how many models a builder keeps a counter and what it has counted: a service's clients name the models."""

HISTORY_CACHES = 256
"""For how many names and models a builder remembers the messages of chats."""

CACHED_LINES = 200_000
"""Of how many lines, of all chats together, a builder knows what it has read."""

TRACED_BOOKS = 16
"""Books whose entries' places are kept for source maps."""

TRACED_ENTRIES = 4096
"""Of how many lore entries a builder keeps the texts for the next source map."""

TRACED_DIALOGUES = 32
"""How many example dialogues a builder keeps for the next source map."""

HISTORY_CACHE_BYTES = 64_000_000
"""About how much memory the messages of chats, and their blocks, may take that a builder keeps for the next turn."""

BYTES_OF_A_MESSAGE = 2000
"""What a message takes besides its text."""

LONG_TEXT_CHARACTERS = 4096
"""Longer texts are cached by digest, and their blocks are not cached, so that caches stay small."""

CACHED_SCRIPT_LISTS = 64
"""For how many lists of regex scripts a builder caches results."""

CACHED_SCRIPT_TEXTS = 256
"""How many expanded replacements of regex scripts a build caches."""

CACHED_SCRIPT_CHARACTERS = 32_000_000
"""Total characters of texts whose regex script results a builder caches."""

EMBEDDED_BOOKS = 64
"""How many converted books of cards a builder caches."""

MACRO_REGISTRIES = 8
"""For how many macro registries a builder keeps an engine."""

MAX_PRESET_BYTES = 64 * 1024 * 1024
"""How large a preset file may be."""

MAX_SETTINGS_BYTES = 256 * 1024 * 1024
"""How large ``settings.json`` may be: it has all prompts, scripts and variables of its user."""

MAX_GROUP_BYTES = 64 * 1024 * 1024
"""How large a group file may be."""
