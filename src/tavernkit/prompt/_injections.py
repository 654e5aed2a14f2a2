"""Texts that an application inserts into the prompt: the data behind ``/inject``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit.errors import ConfigError

if TYPE_CHECKING:
    from tavernkit.prompt._context import BuildState, Context

POSITIONS = ("before", "after", "chat", "none")
"""Before the main prompt, after it, in the chat at a depth, or only scanned for lore."""

POSITION_ALIASES: Mapping[str, str] = {"before_prompt": "before", "in_prompt": "after", "in_chat": "chat"}
"""Other names for ``POSITIONS``."""

DEFAULT_DEPTH = 4

InjectionFilter: TypeAlias = Callable[["BuildState[Context]"], bool]
"""Decides for each build whether an injection applies."""


@dataclass(frozen=True, slots=True)
class Injection:
    """One injected text. ``depth`` applies only in the chat: 0 is after the last message."""

    id: str
    """The injection's name; registering the same id again replaces it."""
    content: str
    """The text."""
    position: str
    """``before`` or ``after`` the main prompt, in the ``chat`` at ``depth``, or ``none`` (only scanned for lore)."""
    role: str = "system"
    """The role of its message in the chat."""
    depth: int = DEFAULT_DEPTH
    scan: bool = False
    """True if its text is scanned for lore keys."""
    ephemeral: bool = False
    """True if it is meant for one generation; the application removes it after that."""
    filter: InjectionFilter | None = None
    """Decides for each build whether it applies; without a filter it always does."""

    @property
    def in_chat(self) -> bool:
        """True if it goes into the chat at a depth."""
        return self.position == "chat"

    def active_for(self, state: BuildState[Context]) -> bool:
        """Return what the filter says; True if there is no filter or it fails, which is reported."""
        if self.filter is None:
            return True
        try:
            return bool(self.filter(state))
        except Exception as error:  # noqa: BLE001  # the application's code: its failure must not stop a build
            state.warn(
                f"the filter of injection {self.id!r} failed ({type(error).__name__}: {error}); it counts as active"
            )
            return True


class InjectionRegistry:
    """Injections by id: registering an id again replaces it; iteration is in order of ids.

    Ephemeral injections are listed by ``ephemeral_ids`` and removed by the application after a generation.
    """

    def __init__(self) -> None:
        self._entries: dict[str, Injection] = {}
        self._lock = threading.Lock()

    def register(
        self,
        id: str,  # noqa: A002  # the word users know
        content: str | None,
        position: str = "after",
        *,
        role: str = "system",
        depth: int = DEFAULT_DEPTH,
        scan: bool = False,
        ephemeral: bool = False,
        filter: InjectionFilter | None = None,  # noqa: A002  # the word users know
    ) -> Injection:
        """Add or replace an injection; without content it is empty.

        Args:
            id: The injection's name.
            content: The text.
            position: ``before`` or ``after`` the main prompt, ``chat``, or ``none`` (only scanned for lore).
            role: The role of its message in the chat.
            depth: Messages between it and the end of the chat.
            scan: Scan its text for lore keys.
            ephemeral: It is meant for one generation.
            filter: Decides for each build whether it applies.

        Raises:
            ConfigError: There is no such position.
        """
        canonical = POSITION_ALIASES.get(position, position)
        if canonical not in POSITIONS:
            raise ConfigError(
                f"unknown injection position {position!r}; pass one of {', '.join(POSITIONS)}",
                code="UNKNOWN_INJECTION_POSITION",
            )
        entry = Injection(
            id=id,
            content=content or "",
            position=canonical,
            role=role,
            depth=max(depth, 0),
            scan=scan,
            ephemeral=ephemeral,
            filter=filter,
        )
        with self._lock:
            self._entries[entry.id] = entry
        return entry

    def remove(self, id: str) -> None:  # noqa: A002  # the word users know
        """Remove an injection if it exists."""
        with self._lock:
            self._entries.pop(id, None)

    def __iter__(self) -> Iterator[Injection]:
        with self._lock:
            entries = list(self._entries.values())
        return iter(sorted(entries, key=lambda entry: entry.id))

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, id: object) -> bool:  # noqa: A002  # the word users know
        return id in self._entries

    @property
    def ephemeral_ids(self) -> tuple[str, ...]:
        """Ids of the injections that are meant for one generation only."""
        return tuple(entry.id for entry in self if entry.ephemeral)
