"""Hooks that run when a part of the library has been set up, also for those who come late."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

LoadHook = Callable[[object], object]
"""Called with what the scope was set up with."""


@dataclass(slots=True)
class _Scope:
    named: dict[str, LoadHook] = field(default_factory=dict[str, LoadHook])
    anonymous: list[LoadHook] = field(default_factory=list[LoadHook])
    payload: object = None


class LoadHooks:
    """Hooks by scope. Hooks run outside the lock, so they may register others; what they raise is passed on."""

    def __init__(self) -> None:
        self._scopes: dict[str, _Scope] = {}
        self._lock = threading.Lock()

    def on_load(self, scope: str, hook: LoadHook, *, id: str | None = None) -> None:  # noqa: A002  # users' word
        """Register a hook; one with the same ``id`` replaces the earlier. If the scope has run, the hook runs now."""
        with self._lock:
            entry = self._scopes.setdefault(scope, _Scope())
            if id is None:
                entry.anonymous.append(hook)
            else:
                entry.named[id] = hook
            payload = entry.payload
        if payload is not None:
            hook(payload)

    def run(self, scope: str, payload: object) -> None:
        """Run a scope's hooks, named ones first, and keep the payload for hooks that come later.

        A payload of ``None`` leaves the scope as one that has not run.
        """
        with self._lock:
            entry = self._scopes.setdefault(scope, _Scope())
            entry.payload = payload
            hooks = [*entry.named.values(), *entry.anonymous]
        for hook in hooks:
            hook(payload)

    def reset(self, scope: str | None = None) -> None:
        """Forget the hooks and the payload of a scope, or of all."""
        with self._lock:
            if scope is None:
                self._scopes.clear()
            else:
                self._scopes.pop(scope, None)


default_load_hooks = LoadHooks()
"""The hooks of this process."""
