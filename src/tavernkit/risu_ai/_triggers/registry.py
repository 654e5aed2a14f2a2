"""The table of effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from tavernkit._dataclass import dataclass

if TYPE_CHECKING:
    from tavernkit.risu_ai._triggers.program import Effect
    from tavernkit.risu_ai._triggers.run import Run

EffectFunction: TypeAlias = "Callable[[Run, Effect], int | None]"
"""Runs an effect; returns where to continue, or None for the next effect."""


@dataclass(frozen=True, slots=True)
class EffectHandler:
    """An effect of the table; ``low_level`` is True if it needs low-level access."""

    function: EffectFunction
    low_level: bool = False


class EffectTable:
    """Effects by type: modules fill it with ``effect()``."""

    def __init__(self) -> None:
        self._handlers: dict[str, EffectHandler] = {}

    def effect(self, *types: str, low_level: bool = False) -> Callable[[EffectFunction], EffectFunction]:
        """Register a function for effect types."""

        def register(function: EffectFunction) -> EffectFunction:
            for name in types:
                if name in self._handlers:
                    raise ValueError(f"the effect {name} is there twice")
                self._handlers[name] = EffectHandler(function, low_level)
            return function

        return register

    @property
    def handlers(self) -> Mapping[str, EffectHandler]:
        """All effects of the table."""
        return MappingProxyType(self._handlers)


_SAFE: Final = frozenset(
    {
        "v2SetVar",
        "v2If",
        "v2IfAdvanced",
        "v2Else",
        "v2EndIndent",
        "v2LoopNTimes",
        "v2BreakLoop",
        "v2ConsoleLog",
        "v2StopTrigger",
        "v2Random",
        "v2ExtractRegex",
        "v2RegexTest",
        "v2GetCharAt",
        "v2GetCharCount",
        "v2ToLowerCase",
        "v2ToUpperCase",
        "v2SetCharAt",
        "v2SplitString",
        "v2JoinArrayVar",
        "v2ConcatString",
        "v2MakeArrayVar",
        "v2GetArrayVarLength",
        "v2GetArrayVar",
        "v2SetArrayVar",
        "v2PushArrayVar",
        "v2PopArrayVar",
        "v2ShiftArrayVar",
        "v2UnshiftArrayVar",
        "v2SpliceArrayVar",
        "v2SliceArrayVar",
        "v2GetIndexOfValueInArrayVar",
        "v2RemoveIndexFromArrayVar",
        "v2Calculate",
        "v2Comment",
        "v2DeclareLocalVar",
    }
)

ALLOWED: Final[Mapping[str, frozenset[str]]] = {
    "display": _SAFE | {"v2GetDisplayState", "v2SetDisplayState"},
    "request": _SAFE
    | {
        "v2GetRequestState",
        "v2SetRequestState",
        "v2GetRequestStateRole",
        "v2SetRequestStateRole",
        "v2GetRequestStateLength",
    },
}
"""The effects that run in modes which only edit a text; all others are skipped there."""
