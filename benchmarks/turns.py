"""``python -m benchmarks.turns``: processor time of turns inside the service, of one session and of many in turn.

No HTTP and no model's time: what a turn itself costs with SQLite. The least says what a turn takes on a quiet machine,
the mean also what many sessions do to caches and memory. Arguments: the numbers of sessions.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tavernkit.models import Reply, ReplyPiece, Request
from tavernkit.server import ServerConfig, Service
from tavernkit.server.api.replies import ReplyListener
from tavernkit.server.app import warm_up
from tavernkit.server.storage.chats import Selection
from tavernkit.server.turns.request import NewMessage, TurnRequest
from tavernkit.server.upstreams.example_model import ExampleModel

SESSIONS = (1, 250)
TURNS = 750
WARM_UP_TURNS = 4
MESSAGE = "Seven grey sails again, Aria. What does the storm glass say about Hern?"
REPLY = "*nods slowly.* Hern's glass has been dark since the spring tide. Go on, tell me what you saw."


class _QuickModel(ExampleModel):
    """Always gives the same reply, at once."""

    async def send(self, request: Request, *, on_delta: Callable[[ReplyPiece], object] | None = None) -> Reply:
        del request, on_delta
        return Reply(text=REPLY, finish_reason="stop")


async def measure(sessions: int) -> list[float]:
    """Run turns of all sessions, one after the other, and return the milliseconds of each."""
    with tempfile.TemporaryDirectory() as folder:
        config = ServerConfig.model_validate({"data": Path(folder)})
        service = Service(config, models={"scripted": _QuickModel()})
        await service.start()
        warm_up()
        try:
            rounds = max(TURNS // sessions, 1)
            times = [
                [await _turn(service, session, number) for session in range(sessions)]
                for number in range(WARM_UP_TURNS + rounds)
            ]
        finally:
            await service.stop()
    return [each for one in times[WARM_UP_TURNS:] for each in one]


async def _turn(service: Service, session: int, number: int) -> float:
    wanted = TurnRequest(
        owner="benchmark",
        selection=Selection(platform="silly_tavern", character="aria", preset="preset"),
        messages=[NewMessage(role="user", content=f"{MESSAGE} ({session}, {number})")],
        session=f"session-{session}",
    )
    began = time.process_time()
    await service.turns.start(wanted, ReplyListener(streaming=False))
    return (time.process_time() - began) * 1000


def main() -> None:
    """Print a table."""
    print(f"{'sessions':>9} {'least':>8} {'median':>8} {'mean':>8}  ms of processor time per turn")
    for sessions in [int(each) for each in sys.argv[1:]] or SESSIONS:
        times = asyncio.run(measure(sessions))
        shown = f"{min(times):>8.2f} {statistics.median(times):>8.2f} {statistics.fmean(times):>8.2f}"
        print(f"{sessions:>9} {shown}", flush=True)


if __name__ == "__main__":
    main()
