"""The limits of worker processes."""

from __future__ import annotations

WALL_FACTOR = 10.0
"""How many times its processor time a request may take by the clock, before the machine counts as stuck."""

LEAST_WALL_SECONDS = 5.0
"""Minimum clock time that every request gets, in seconds."""

MAX_WAIT_SECONDS = 30.0
"""Seconds to wait for a worker process: for a free one, and until it has started."""

MAX_SECONDS = 86_400.0
"""The maximum time limit in seconds, because the system cannot wait longer."""

MAX_WORKERS = 8
"""How many requests may run at once; more wait for one of them to end."""

MAX_IDLE_WORKERS = 2
"""How many worker processes are kept for the next requests, whether ready or still starting."""

MAX_SESSIONS = 16
"""How many worker processes with state are kept; the least recently used one is dropped."""

IDLE_SECONDS = 60.0
"""Seconds without a request after which a stateless worker process ends (if the system has timers)."""

MEMORY = 1 << 30
"""Bytes of address space a worker process may have (if the system can limit it)."""

MAX_MESSAGE = 256 << 20
"""The maximum size of an answer in bytes; larger answers are refused."""
