"""Limits of the service: named here, documented in docs/server.md."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

MAX_JSON_BODY_BYTES: Final = 8 * MIB
"""Bytes of a request that is not an upload."""
MAX_MESSAGES: Final = 10_000
"""Messages of one request, and of a chat that a turn reads: reading and building take about 25 µs for each."""
UNREAD_STEP: Final = 1000
"""How many messages of a longer chat are left out at a time."""
MAX_SESSION_MESSAGES: Final = 100_000
"""Messages of a chat that can continue."""
MAX_ID_CHARACTERS: Final = 200
"""Ids that clients choose: sessions, idempotency keys."""
MAX_NAME_CHARACTERS: Final = 200
MAX_CHOICES: Final = 4
"""Replies per request (``n``)."""
MAX_TOOLS: Final = 128
MAX_SCRIPTS: Final = 1000
"""Global regex scripts."""
MAX_SETTINGS_CHARACTERS: Final = 64 * KIB
"""Bytes of SillyTavern's chat settings: stop strings and templates, which are applied to every reply."""
MAX_STOP_STRINGS: Final = 16
"""Stop strings of a request at which its reply is cut; the model gets all."""
MAX_BOOKS: Final = 64
"""Books that one request or session may switch on."""
MAX_PAGE: Final = 200
"""Rows of one page of a list."""

MAX_USAGE_ROWS: Final = 10_000
"""Rows of a report about usage."""
USAGE_REPORT_DAYS: Final = 30
"""Days of a report by default."""
USAGE_DAYS: Final = 400.0
"""How long the usage of keys is kept."""

MAX_MODELS: Final = 2000
"""Models of OpenAI's list, which has no pages."""

MAX_IMPORTS: Final = 4
"""Imports at the same time."""
MAX_IMPORT_FILES: Final = 20_000
MAX_IMPORT_BYTES: Final = 1024 * MIB
"""What an uploaded archive may unpack to."""
MAX_IMPORT_RATIO: Final = 200
MAX_JOB_WARNINGS: Final = 200

WATCH_SECONDS: Final = 2.0
"""How often a served folder is checked."""

PARSED_ITEMS: Final = 512
"""Parsed characters, books and presets that a process caches."""
CACHED_BUILDERS: Final = 256
CACHED_CHATS: Final = 1024
"""Chats whose lines a process caches between turns."""
MAX_CACHED_CHAT_LINES: Final = 10_000
"""Longer chats are read again each turn."""
MAX_CACHED_LINES: Final = 400_000
"""Total lines that a process caches."""
CHANGEABLE_LINES: Final = 2
"""Lines at the end of a chat that a turn may change; those before are converted once."""
CHANGEABLE_GROUP_LINES: Final = 100
"""The same for groups, whose rounds may be long."""

MEMORY_EVERY: Final = 20
"""After how many messages a session with a memory is summarised again."""
MAX_SUMMARIES: Final = 4
"""Summaries that a process makes at once; three times as many may wait, others start with the next turn."""
MAX_SUMMARY_TOKENS: Final = 600
MAX_SUMMARY_CHARACTERS: Final = 8192
SUMMARY_LEASE_SECONDS: Final = 600.0
"""How long a process owns the work on a summary."""
SUMMARY_WAIT_SECONDS: Final = 120.0
"""How long a summary waits for a pause between two turns to be stored."""
SUMMARY_PAUSE_SECONDS: Final = 60.0
"""The pause after a failed summary; it doubles each time, up to an hour."""

PREDICTED_SESSIONS: Final = 256
"""Sessions for which a process predicts what providers have cached; each keeps its last prompts."""
MAX_PREDICTED_TURNS: Final = 1000

BUILD_THREADS: Final = 4
WAITING_BUILD_THREADS: Final = 16
"""Builds that wait for an upstream's vectors, at the same time."""
SHORT_BUILD_SECONDS: Final = 0.01
"""Builds that take no longer than this run in the event loop, others in threads."""
KNOWN_BUILDS: Final = 4096
"""Kinds of builds whose time a process records."""
WRITE_BACK_SECONDS: Final = 1.0
"""How often changed sessions are written to the served folder."""
KEPT_BACKUPS: Final = 10
"""Backups of a file that are kept there."""
MAX_CHAT_FILES_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a chat's attached files that an import accepts."""
MAX_HELPER_REQUESTS: Final = 32
"""Additional requests of a turn, for example by a card's triggers."""
MAX_ALERTS: Final = 100
"""Texts and questions of a turn's triggers for the user."""
MAX_STREAM_BACKLOG: Final = 256
"""Pieces of a reply that are buffered for a slow client before reading from the model pauses."""

MAX_TURNS: Final = 256
"""Turns of a process that run at the same time: most of the time they wait for models."""
MAX_WAITING: Final = 256
"""Turns that may wait."""

LEASE_SECONDS: Final = 20.0
"""How long a turn owns its chat without renewing its lease; renewed after a third of that."""
BUSY_SECONDS: Final = 30.0
"""How long a request waits for another turn of the same chat."""
SHUTDOWN_SECONDS: Final = 20.0
"""How long running turns may take when the server stops; the text so far is kept as a partial reply."""

KEPT_SECONDS: Final = 1.0
KEPT_CHARACTERS: Final = 2048
"""How much of a stream is received before it is stored, in case the process dies."""

TURN_DAYS: Final = 30.0
"""How long answers are kept for requests repeated with their idempotency key."""
JOB_DAYS: Final = 30.0
MAX_DAYS: Final = 36_500.0
PRUNE_BATCH: Final = 50
"""Rows that are removed in one transaction."""
PRUNE_PAUSE_SECONDS: Final = 0.2
PRUNE_FIRST_SECONDS: Final = 60.0
PRUNE_SECONDS: Final = 3600.0
"""How often a process removes old rows."""

CONTEXT_LENGTH: Final = 16_384
"""Tokens of prompt and reply of an unknown model."""
MAX_CONTEXT_LENGTH: Final = 100_000_000
CONTEXT_LENGTH_SECONDS: Final = 600.0
"""How long a process uses the context size reported by a model's server."""
ASKING_SECONDS: Final = 3.0
"""How long a turn waits for the answer."""

MAX_RETRIES: Final = 2
RETRY_CAP_SECONDS: Final = 8.0
BREAKER_FAILURES: Final = 5
"""Failures in a row after which an upstream is paused."""
BREAKER_SECONDS: Final = 30.0

UPSTREAM_KEY_SECONDS: Final = 2.0
"""How long a process uses an upstream's key before checking for a new one."""

RATE_WINDOW_SECONDS: Final = 60
EMBEDDED_AT_ONCE = 64
"""Texts per embedding request."""
