"""The page about the service gives its limits and defaults as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tavernkit import Limits
from tavernkit.server import ServerConfig, limits
from tavernkit.server.storage import database

DOCS = Path(__file__).parents[2] / "docs"
PAGE = " ".join((DOCS / name).read_text(encoding="utf-8") for name in ("server.md", "deployment.md"))
CONFIG = ServerConfig()

STATEMENTS = [
    f"`n` up to {limits.MAX_CHOICES} without a session",
    f"| a request; an upload | {limits.MAX_JSON_BODY_BYTES >> 20} MiB; {Limits().max_file_bytes >> 20} MiB",
    f"| messages of a request | {limits.MAX_MESSAGES:,} |",
    f"the last {limits.MAX_MESSAGES - limits.UNREAD_STEP:,} to {limits.MAX_MESSAGES:,} are read",
    f"| messages of a session | {limits.MAX_SESSION_MESSAGES:,},",
    f"| books; tools; global regex scripts | {limits.MAX_BOOKS}; {limits.MAX_TOOLS}; {limits.MAX_SCRIPTS:,} |",
    f"| SillyTavern's chat settings | {limits.MAX_SETTINGS_CHARACTERS >> 10} KiB |",
    f"| stop strings of a request at which its reply is cut | {limits.MAX_STOP_STRINGS} |",
    f"| rows per page | {limits.MAX_PAGE} |",
    f"{limits.MAX_SUMMARY_CHARACTERS:,} characters; {limits.MAX_SUMMARIES}, and {3 * limits.MAX_SUMMARIES} that wait |",
    f"| rows of a usage report | {limits.MAX_USAGE_ROWS:,} |",
    f"| models in OpenAI's list | {CONFIG.max_models:,} (`max_models`) |",
    f"| {limits.MAX_IMPORT_FILES:,}; {limits.MAX_IMPORT_BYTES >> 30} GiB; {limits.MAX_JOB_WARNINGS} |",
    f"| imports at the same time, in all processes | {CONFIG.max_imports} (`max_imports`) |",
    f"| {CONFIG.max_turns} (`max_turns`); {CONFIG.max_waiting} (`max_waiting`), for {CONFIG.busy_seconds:g} s",
    f"| waiting for a session's running turn | {CONFIG.busy_seconds:g} s (`busy_seconds`) |",
    f"before it gets a pause of {limits.BREAKER_SECONDS:g} s | {limits.MAX_RETRIES}; {limits.BREAKER_FAILURES} |",
    f"after every `memory_every` ({CONFIG.memory_every}) messages",
    f"for `usage_days` ({CONFIG.usage_days:g})",
    f"or is {limits.CONTEXT_LENGTH:,} tokens",
    f"(up to {limits.MAX_CHAT_FILES_BYTES >> 20} MB per chat)",
    f"`shutdown_seconds` ({CONFIG.shutdown_seconds:g})",
    f"(`lease_seconds`, {CONFIG.lease_seconds:g})",
    f"Each process opens up to {database.POOL_SIZE + database.MAX_OVERFLOW} connections to PostgreSQL",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_numbers_are_current(statement: str) -> None:
    assert " ".join(statement.split()) in " ".join(PAGE.split())
