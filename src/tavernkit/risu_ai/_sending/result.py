"""The result of a send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from tavernkit._dataclass import dataclass
from tavernkit.errors import TavernKitError
from tavernkit.risu_ai._files.settings import Settings
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat
from tavernkit.stores._variables import VariableChanges

if TYPE_CHECKING:
    from tavernkit.risu_ai._plan import RisuPlan


@dataclass(frozen=True, slots=True)
class SendError:
    """Why a send failed: a stable code, the message for the user, and what the provider said.

    ``cause`` is the error of the build, if that is what failed; it has the numbers.
    """

    code: str
    message: str
    detail: str = ""
    cause: TavernKitError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SendResult:
    """The outcome. ``chat`` and ``character`` are to be stored, whether the send succeeded or not.

    So are the ``members`` of a group and the ``settings``, in which triggers may have changed personas and a preset
    chain the preset.

    A send that a trigger stopped, or whose error was written into the chat, is not ``ok`` and has no ``error``.
    ``plans`` are the prompts that were built, in order; ``emotions`` the pictures that scripts asked for.
    """

    ok: bool
    chat: RisuChat
    character: RisuCharacter
    members: Sequence[RisuCharacter] = ()
    settings: Settings = field(default_factory=Settings, repr=False)
    error: SendError | None = None
    plans: Sequence[RisuPlan] = ()
    emotions: Sequence[str] = ()
    suggestions: Sequence[str] = ()
    """What the user could say next, if that was asked for (``SendSteps``)."""
    translations: Mapping[str, str] = field(default_factory=dict[str, str])
    """Replies to be shown in another language, by their ids."""
    warnings: Sequence[str] = field(default_factory=tuple[str, ...])
    """Warnings of the send and its builds."""
    variables: VariableChanges = field(default_factory=VariableChanges)
    """What the send changes in the chat's variables; write it with ``variables.apply(store)``."""
