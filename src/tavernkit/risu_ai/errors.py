"""Errors of the RisuAI platform in strict mode; normal mode does what RisuAI does, with warnings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tavernkit._values import Json
from tavernkit.errors import TavernKitError

if TYPE_CHECKING:
    from tavernkit.risu_ai._triggers.result import StoredState


class CBSError(TavernKitError):
    """A CBS text could not be expanded.

    ``position`` is an offset in the original text (for a nested text, of the tag that led there), ``block_type`` names
    the block, if any.
    """

    def __init__(self, message: str, *, position: int | None = None, block_type: str | None = None) -> None:
        super().__init__(message)
        self.position = position
        self.block_type = block_type


class CBSSyntaxError(CBSError):
    """A tag or a block is not closed."""


class CBSStackOverflowError(CBSError):
    """More calls or nested texts in one expansion than RisuAI allows."""

    def __init__(
        self,
        message: str,
        *,
        depth: int,
        max_depth: int,
        position: int | None = None,
        block_type: str | None = None,
    ) -> None:
        super().__init__(message, position=position, block_type=block_type)
        self.depth = depth
        self.max_depth = max_depth


class CBSLimitError(CBSError):
    """A text asks for more work or more output than a safety limit allows; ``limit`` names it."""

    def __init__(self, message: str, *, limit: str, position: int | None = None) -> None:
        super().__init__(message, position=position)
        self.limit = limit


class DecoratorParseError(TavernKitError):
    """A decorator of a lorebook entry could not be read."""


class TriggerError(TavernKitError):
    """A trigger could not be run. ``stored`` is what the application must still store."""

    stored: StoredState | None = None

    def __init__(self, message: str, *, trigger_type: str | None = None, effect_type: str | None = None) -> None:
        super().__init__(message)
        self.trigger_type = trigger_type
        self.effect_type = effect_type


class TriggerRecursionError(TriggerError):
    """Triggers ran each other too deeply."""


class RequestFormatError(TavernKitError):
    """Messages cannot be converted to the format of a model."""


class ChatTemplateError(TavernKitError):
    """A Jinja chat template is wrong, refuses the messages, or exceeds a limit."""


class PromptTemplateError(TavernKitError):
    """A prompt template, a greeting or a group is unusable (strict mode)."""


class MemoryFailedError(TavernKitError):
    """Long-term memory failed; ``code`` is stable for programs, ``details`` has the numbers.

    ``stored`` is what to store on the chat anyway: the summaries made before the failure.
    """

    def __init__(self, code: str, message: str, **details: int) -> None:
        super().__init__(message)
        self.code = code
        self.details = details
        self.stored: Mapping[str, Json] = {}
