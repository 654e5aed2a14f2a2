"""The error hierarchy, and how warnings are reported.

External input never raises in normal mode: it is reported through a ``Warn`` callable, and work continues. Mistakes of
the calling program raise at once, as ``ConfigError`` or a subclass of it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from contextvars import ContextVar

Warn = Callable[[str], None]
"""Called with each problem in external input: one readable sentence that says what was wrong and where."""

MAX_WARNINGS_OF_A_KIND = 100
"""How many warnings are kept that differ only in names and numbers; the others are only counted."""

MAX_WARNINGS = 1000
"""How many are kept in all."""

_DETAILS = re.compile(r"""'[^']*'|"[^"]*"|\{\{.*?\}\}|/.+?/\w*|[\d.,]*\d""", re.DOTALL)
_KIND_LENGTH = 200

logger = logging.getLogger("tavernkit")


class TavernKitError(Exception):
    """Base of every error this library raises on purpose."""


class StrictModeError(TavernKitError):
    """A warning in strict mode."""


class ConfigError(TavernKitError, ValueError):
    """The calling program passed something that cannot work; the message says what to pass instead.

    ``code`` is stable for programs (``UNKNOWN_DIALECT``), ``step`` names the pipeline step if one was running.
    """

    def __init__(self, message: str, *, code: str = "INVALID_ARGUMENT", step: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.step = step


class PipelineError(TavernKitError):
    """A step of a pipeline failed; ``__cause__`` is the original error."""

    def __init__(self, message: str, *, step: str | None = None) -> None:
        super().__init__(f"{message} (step: {step})" if step else message)
        self.step = step

    @property
    def stage(self) -> str | None:
        """The same as ``step``."""
        return self.step


class MaxTokensExceededError(PipelineError):
    """The required parts of the prompt do not fit its token budget.

    ``partial`` is the incomplete result, if there is one.
    """

    def __init__(
        self,
        *,
        estimated_tokens: int,
        max_tokens: int,
        reserve_tokens: int = 0,
        step: str | None = None,
        partial: object = None,
    ) -> None:
        self.estimated_tokens = estimated_tokens
        self.max_tokens = max_tokens
        self.reserve_tokens = reserve_tokens
        self.limit_tokens = max(max_tokens - reserve_tokens, 0)
        self.partial = partial
        super().__init__(
            f"the prompt needs {estimated_tokens} tokens and only {self.limit_tokens} are available "
            f"({max_tokens} in all, {reserve_tokens} kept for the reply)",
            step=step,
        )


class FileFormatError(TavernKitError):
    """A file could not be read, or is not what it should be: the base of all errors about files."""


class InvalidCardError(FileFormatError):
    """A character card could not be read."""


class UnsupportedVersionError(FileFormatError):
    """A file is of a version that is not supported."""


class LimitExceededError(FileFormatError):
    """A file exceeds a safety limit; ``limit`` names the limit."""

    def __init__(self, message: str, *, limit: str) -> None:
        super().__init__(message)
        self.limit = limit


class LoreParseError(FileFormatError):
    """A lorebook could not be read."""


class MacroError(TavernKitError):
    """A macro could not be expanded (strict mode)."""

    def __init__(self, message: str, *, macro_name: str | None = None, position: int | None = None) -> None:
        super().__init__(message)
        self.macro_name = macro_name
        self.position = position


class InvalidPresetError(FileFormatError):
    """A preset could not be read."""


class WarningCounts:
    """Counts warnings by kind and decides which are kept."""

    def __init__(self) -> None:
        self._kept: dict[str, int] = {}
        self._all_kept = 0
        self._left_out: dict[str, int] = {}

    def take(self, message: str) -> bool:
        """Count a warning; return False if there are enough like it."""
        kind = _DETAILS.sub("…", message[:_KIND_LENGTH])
        kept = self._kept.get(kind, 0)
        if kept < MAX_WARNINGS_OF_A_KIND and self._all_kept < MAX_WARNINGS:
            self._kept[kind] = kept + 1
            self._all_kept += 1
            return True
        counted = kind if kept or len(self._left_out) < MAX_WARNINGS_OF_A_KIND else ""
        self._left_out[counted] = self._left_out.get(counted, 0) + 1
        return False

    @property
    def left_out(self) -> Sequence[str]:
        """Return one line for each kind with too many warnings."""
        return tuple(
            f"{count:,} more like this: {kind}" if kind else f"{count:,} more of other kinds"
            for kind, count in self._left_out.items()
        )


class WarningLog:
    """Collects warnings in order; raises ``StrictModeError`` in strict mode. Callable, so it is a ``Warn``.

    Args:
        strict: Raise at the first warning.
        warn: Called with each warning as well.

    Raises:
        ConfigError: An argument has the wrong type.
    """

    def __init__(self, *, strict: bool = False, warn: Warn | None = None) -> None:
        # Checked by hand: `_arguments` imports this module.
        if not isinstance(strict, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise ConfigError(f"strict must be True or False, not {strict!r}")
        if warn is not None and not callable(warn):
            raise ConfigError(f"warn must be a function or None, not {warn!r}")
        self._messages: list[str] = []
        self._counts = WarningCounts()
        self._strict = strict
        self._warn = warn

    def __call__(self, message: str) -> None:
        """Record a warning."""
        kept = self._counts.take(message)
        if kept:
            self._messages.append(message)
        if self._strict:
            raise StrictModeError(message)
        if kept and self._warn is not None:
            self._warn(message)

    @property
    def messages(self) -> Sequence[str]:
        """The warnings so far; of many similar ones only the first, and how many more there were."""
        return (*self._messages, *self._counts.left_out)


def refuse_warning(message: str) -> None:
    """Raise a warning as ``StrictModeError``: the ``warn`` callable of strict mode."""
    raise StrictModeError(message)


def log_warning(message: str) -> None:
    """Report a warning through ``logging`` (logger ``tavernkit``): the default."""
    logger.warning(message)


_noted: ContextVar[list[str] | None] = ContextVar("degraded", default=None)


class noting_degraded:  # noqa: N801  # used as a function; a class takes half the time of a generator
    """Collect what ``note_degraded()`` reports inside the ``with`` block."""

    __slots__ = ("_token",)

    def __enter__(self) -> list[str]:
        reasons: list[str] = []
        self._token = _noted.set(reasons)
        return reasons

    def __exit__(self, *raised: object) -> None:
        _noted.reset(self._token)


def note_degraded(reason: str) -> None:
    """Record that a result may differ from that of an idle machine."""
    reasons = _noted.get()
    if reasons is not None and reason not in reasons:
        reasons.append(reason)
