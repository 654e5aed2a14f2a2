"""Limits of the service: named here, documented in docs/server.md."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

MAX_JSON_BODY_BYTES: Final = 8 * MIB
"""A request that is not an upload."""
MAX_MESSAGES: Final = 10_000
"""Messages of one request, and of a chat that a turn reads: reading and building take some 25 µs for each."""
UNREAD_STEP: Final = 1000
"""How many messages of a longer chat turns leave out at once; macros that count messages see them grow meanwhile."""
MAX_SESSION_MESSAGES: Final = 100_000
"""Messages of a chat that goes on."""
MAX_ID_CHARACTERS: Final = 200
"""Ids that clients choose: sessions, idempotency keys."""
MAX_NAME_CHARACTERS: Final = 200
MAX_CHOICES: Final = 4
"""Replies that one request may ask for."""
MAX_TOOLS: Final = 128
MAX_SCRIPTS: Final = 1000
"""Global regex scripts."""
MAX_SETTINGS_CHARACTERS: Final = 64 * KIB
"""SillyTavern's settings of chats: stop strings and templates, which every reply is compared with."""
MAX_STOP_STRINGS: Final = 16
"""Stop strings of a request that its reply is compared with; the model gets all."""
MAX_BOOKS: Final = 64
"""Books that one request or session may switch on."""
MAX_PAGE: Final = 200
"""Rows of one page of a list."""

MAX_USAGE_ROWS: Final = 10_000
"""Rows of a report about usage."""
USAGE_REPORT_DAYS: Final = 30
"""Days of such a report that names none."""
USAGE_DAYS: Final = 400.0
"""How long what keys have used is kept."""

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
"""How often a served folder is looked at."""

PARSED_ITEMS: Final = 512
"""Characters, books and presets that a process keeps parsed."""
CACHED_BUILDERS: Final = 256
CACHED_CHATS: Final = 1024
"""Chats whose lines a process remembers between turns."""
MAX_CACHED_CHAT_LINES: Final = 10_000
"""Longer chats are read again each turn."""
MAX_CACHED_LINES: Final = 400_000
"""Lines of all chats together that a process remembers."""
CHANGEABLE_LINES: Final = 2
"""Lines at the end of a chat that a turn may change; those before are converted once."""
CHANGEABLE_GROUP_LINES: Final = 100
"""The same of a group, whose rounds may be long."""

MEMORY_EVERY: Final = 20
"""After how many messages a session with a memory is summarised again."""
MAX_SUMMARIES: Final = 4
"""Summaries that a process makes at once; four times as many wait, the others are begun by the next turn."""
MAX_SUMMARY_TOKENS: Final = 600
MAX_SUMMARY_CHARACTERS: Final = 8192
SUMMARY_LEASE_SECONDS: Final = 600.0
"""How long a process owns the work on a summary."""
SUMMARY_WAIT_SECONDS: Final = 120.0
"""How long a summary waits for a pause between two turns to be stored."""
SUMMARY_PAUSE_SECONDS: Final = 60.0
"""How long a failed summary is left alone; twice as long each time, up to an hour."""

PREDICTED_SESSIONS: Final = 256
"""Sessions for which a process predicts what providers have cached; each keeps its last prompts."""
MAX_PREDICTED_TURNS: Final = 1000

BUILD_THREADS: Final = 4
SHORT_BUILD_SECONDS: Final = 0.01
"""Builds that take no longer than this are made between requests, others beside them."""
KNOWN_BUILDS: Final = 4096
"""Kinds of builds whose time a process remembers."""
WRITE_BACK_SECONDS: Final = 1.0
"""How often changed sessions are written into the folder that is served."""
KEPT_BACKUPS: Final = 10
"""Backups of a file that are kept there."""
MAX_CHAT_FILES_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a chat's attached files that an import takes."""
MAX_HELPER_REQUESTS: Final = 32
"""Requests of a turn beside its chat: those of a card's triggers, for instance."""
MAX_STREAM_BACKLOG: Final = 256
"""Pieces of a reply that wait for a slow client before the model is no longer read."""

MAX_TURNS: Final = 256
"""Turns of a process that run at the same time: nearly all of their time they wait for models."""
MAX_WAITING: Final = 256
"""Turns that wait for that."""

LEASE_SECONDS: Final = 20.0
"""How long a turn owns its chat without renewing; renewed at a third of it."""
BUSY_SECONDS: Final = 30.0
"""How long a request waits for another turn of the same chat."""
SHUTDOWN_SECONDS: Final = 20.0
"""How long running turns may take when the server stops; what is said by then is kept as a partial reply."""

KEPT_SECONDS: Final = 1.0
KEPT_CHARACTERS: Final = 2048
"""After how much of a stream what was said is stored, in case the process dies."""

TURN_DAYS: Final = 30.0
"""How long answers are kept for requests that are repeated with their idempotency key."""
JOB_DAYS: Final = 30.0
MAX_DAYS: Final = 36_500.0
PRUNE_BATCH: Final = 50
"""Rows that are removed in one transaction."""
PRUNE_PAUSE_SECONDS: Final = 0.2
PRUNE_FIRST_SECONDS: Final = 60.0
PRUNE_SECONDS: Final = 3600.0
"""How often a process looks for what is too old."""

CONTEXT_LENGTH: Final = 16_384
"""Tokens of prompt and reply of an unknown model."""
MAX_CONTEXT_LENGTH: Final = 100_000_000
CONTEXT_LENGTH_SECONDS: Final = 600.0
"""How long a process goes by what a model's server has said about its context size."""
ASKING_SECONDS: Final = 3.0
"""How long a turn waits for that."""

MAX_RETRIES: Final = 2
RETRY_BASE_SECONDS: Final = 0.5
RETRY_CAP_SECONDS: Final = 8.0
BREAKER_FAILURES: Final = 5
"""Failures in a row after which an upstream is left alone."""
BREAKER_SECONDS: Final = 30.0

UPSTREAM_KEY_SECONDS: Final = 2.0
"""How long a process uses an upstream's key without asking whether another process has stored a new one."""

RATE_WINDOW_SECONDS: Final = 60
EMBEDDED_AT_ONCE = 64
"""Texts that an upstream is asked to embed in one request."""
