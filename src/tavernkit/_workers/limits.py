"""The limits of worker processes."""

from __future__ import annotations

WALL_FACTOR = 10.0
"""How much longer than its processor time a request may take by the clock, before the machine counts as stuck."""

LEAST_WALL_SECONDS = 5.0
"""Seconds that every request may take by the clock."""

MAX_WAIT_SECONDS = 30.0
"""Seconds to wait for a worker process: for a free one, and until it has started."""

MAX_SECONDS = 86_400.0
"""Seconds that a larger limit is cut down to, as the system cannot wait for any time."""

MAX_WORKERS = 8
"""How many requests may run at once; more wait for one of them to end."""

MAX_IDLE_WORKERS = 2
"""How many worker processes are kept for the next requests, whether ready or still starting."""

MAX_SESSIONS = 16
"""How many worker processes are kept for what has a state; the one that was not used for longest makes room."""

IDLE_SECONDS = 60.0
"""Seconds without a request after which a worker process without a state ends (where the system has timers)."""

MEMORY = 1 << 30
"""Bytes of address space a worker process may have (where the system can limit it)."""

MAX_MESSAGE = 256 << 20
"""Bytes that a worker process may answer with; one that says more is not believed."""
