"""Limits of a RisuAI build, far above normal use."""

from __future__ import annotations

MAX_TEMPLATE_DEPTH = 40
"""How deep a chat template may nest its blocks and what is in them."""

MAX_TEMPLATE_CHARACTERS = 200_000
"""Length of a Jinja chat template."""

MAX_TEMPLATE_LOOPS = 1_000_000
"""Rounds of all loops of one rendering of a chat template."""

MAX_TEMPLATE_SECONDS = 5.0
"""Processor time for compiling and rendering a chat template: a round of a loop may sort a long list."""

TEMPLATE_GRACE = 1.25
"""How many times that limit it may take before its process is killed."""

MAX_TEMPLATE_OUTPUT = 50_000_000
"""Characters a chat template may write, and the longest text it may make on the way."""

MAX_TEMPLATE_NUMBER = 10**15
"""The largest number a chat template may calculate with."""

CACHED_TEMPLATES = 64
"""Compiled chat templates that are kept."""

MAX_PRESET_BYTES = 64_000_000
"""Size of a preset file, packed and unpacked."""

MAX_SEALED_BYTES = 8_000_000
"""Size of the sealed part of a preset file: plain Python decrypts about a million bytes per second."""

MAX_PACK_DEPTH = 256
"""How deeply a packed preset may nest."""

MAX_DATABASE_BYTES = 2**30
"""Size of a database as it is stored."""

MAX_UNPACKED_DATABASE = 2**31
"""Size of a database when it is unpacked."""

MAX_DATABASE_DEPTH = 512
"""How deeply a database may nest."""

MAX_DATABASE_BLOCKS = 100_000
"""Blocks of a database file."""

MAX_BLOCK_SEARCHES = 16
"""How often reading goes back into a damaged block, whose length is wrong, to find the next."""

MAX_BACKUP_ENTRIES = 200_000
"""Entries of a local backup."""

MAX_BACKUP_NAME = 1024
"""Bytes of the name of an entry of a local backup."""

MAX_COLD_CHAT_BYTES = 256_000_000
"""Size of a chat in cold storage, packed and unpacked."""

MAX_CHAT_BYTES = 512_000_000
"""Size of a chat file."""

MAX_SCRIPT_TEXT = 2_000_000
"""The longest text that regex scripts run over: every match of every character takes memory."""

MAX_SCRIPTED_PIECES = 200
"""Pieces of a streamed reply after which a chat's scripts run; those of a longer stream are joined."""

MAX_FILLED_TEXT = 16_000_000
"""The maximum characters of a text after slots, places for lore and groups of a match are filled."""

MAX_PRINTED_MESSAGES = 100_000
"""Messages that a template may print: its cards may print the whole chat each."""

MAX_CACHE_WORK = 1_000_000
"""Messages that all cache cards of a template may go through."""

CACHED_BLOCKS = 4096
"""How many finished blocks of the chat a builder keeps for the next turn."""

REMEMBERED_MESSAGES = 200_000
"""Of how many messages, of all chats together, a builder knows what it has read and written."""

CACHED_LOREBOOKS = 32
"""Compiled lorebooks of a builder that are kept for the next turn."""

CACHED_REGISTRIES = 8
"""Registries of CBS functions that a builder keeps an engine for."""

CACHED_SCRIPT_RUNNERS = 64
"""Chats whose regex script results a builder keeps."""

CACHED_SCRIPT_LISTS = 64
"""Lists of regex scripts that are kept ready."""

CACHED_SCRIPT_CHARACTERS = 48_000_000
"""Total characters of texts whose regex script results a builder caches."""

MAX_MEMORY_QUERIES = 200
"""Paragraphs of one message for which memory looks for what resembles them; each is a question to the embedder."""

CACHED_TRIGGER_ENGINES = 64
"""Chats whose Lua scripts a builder keeps."""

MAX_ROUNDS = 64
"""Requests of one send: auto-continue, repeated and banned replies, and what triggers ask for."""


MAX_PASSES = 1000
"""Passes over the entries in one scan; each activates at least one, so normal books need far fewer."""

MAX_LOOKS = 200_000
"""How many checks of entries one scan may make, over all passes; many keys or decorators count more."""

LOOKED_AT = 16
"""Keys and decorators of an entry that count as one more check."""

MAX_HITS = 100_000
"""Keys found that are logged."""

MAX_REGEX_WORK = 1_000_000
"""Regex keys that are tried in one scan; a long text counts as one more for every 256 characters."""

MAX_SLOW_KEYS = 20
"""Searches for regex keys that may take too long before no more are tried."""

MAX_REPLACED = 200_000_000
"""Characters of a text that lore which replaces something in it may go through."""
