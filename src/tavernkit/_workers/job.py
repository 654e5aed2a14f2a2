"""Jobs of worker processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Job:
    """A kind of work: a file that a worker process loads once.

    The file defines ``Handler``, a class without arguments whose ``handle(payload, ask)`` gets the bytes of a request
    and returns those of its reply; ``ask`` sends bytes to the caller and returns the answer. It should import little,
    because imports happen with the first request.
    """

    file: Path
    name: bytes = field(init=False, repr=False, compare=False)
    """The file as a message names it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", str(self.file).encode())
