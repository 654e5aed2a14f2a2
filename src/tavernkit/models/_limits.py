"""Limits of this package."""

from __future__ import annotations

from typing import Final

MAX_SSE_EVENT_BYTES: Final = 16_000_000
"""Size of one server-sent event."""

MAX_STREAM_BYTES: Final = 64_000_000
"""Size of one streamed reply."""

MAX_RESPONSE_BYTES: Final = 64_000_000
"""Size of one reply that is not streamed."""

CONNECT_SECONDS: Final = 10.0
"""Time to connect to a server, unless configured."""

REPLY_SECONDS: Final = 600.0
"""Time until a server answers, unless configured."""

STREAM_READ_SECONDS: Final = 60.0
"""How long a stream may be silent, unless configured."""

RETRIES: Final = 2
"""How often a failed request is sent again, unless configured."""

RETRY_BASE_SECONDS: Final = 0.5
"""Pause before the first retry; each later one is twice as long."""

RETRY_CAP_SECONDS: Final = 20.0
"""Longest pause between retries, and the longest ``Retry-After`` that is waited for."""
