"""Parsed triggers (conditions, effects, the control flow of V2 effects), and the table of functions for effects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import truthy
from tavernkit._values import EMPTY_OBJECT, FrozenObject, LRUCache, freeze_object, is_mapping, is_sequence
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._objects import RisuCharacter
from tavernkit.risu_ai._triggers.limits import CACHED_PROGRAMS

if TYPE_CHECKING:
    from tavernkit.risu_ai._triggers.run import Run


ALWAYS_SELECTED: Final = frozenset({"triggerlua", "triggercode"})
"""A trigger whose first effect is one of these runs in every mode."""

_LOOPS: Final = frozenset({"v2Loop", "v2LoopNTimes"})


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect. ``indent`` is None if it is missing or not a number.

    ``jump`` is the next effect if it is not the following one: past the body of an if that fails or of an else, out
    of a loop, or back to the effect that opens the loop (-1 if there is none).
    """

    type: str
    fields: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT, repr=False)
    indent: float | None = None
    has_indent: bool = False
    jump: int = -1


@dataclass(frozen=True, slots=True)
class Trigger:
    """One trigger. ``conditions`` is None if it is not a list, which makes RisuAI throw."""

    comment: str
    type: str
    conditions: tuple[FrozenObject, ...] | None
    effects: tuple[Effect, ...]

    @property
    def always_selected(self) -> bool:
        """True if it runs in every mode and for every manual name."""
        return bool(self.effects) and self.effects[0].type in ALWAYS_SELECTED

    @property
    def lua_code(self) -> str | None:
        """The code of its first effect, if that is Lua, for edit passes and buttons."""
        if not self.effects or self.effects[0].type != "triggerlua":
            return None
        code = self.effects[0].fields.get("code")
        return code if isinstance(code, str) else ""


_programs: LRUCache[int, tuple[object, tuple[Trigger, ...]]] = LRUCache(CACHED_PROGRAMS)


def read_triggers(source: object) -> tuple[Trigger, ...]:
    """Read a list of triggers as RisuAI stores it; cached by list object."""
    if not is_sequence(source):
        return ()
    if not isinstance(source, tuple):  # a mutable list is not cached
        return _read(source)
    known = _programs.get(id(source))
    if known is not None and known[0] is source:
        return known[1]
    triggers = _read(source)
    _programs.put(id(source), (source, triggers))
    return triggers


def _read(source: Sequence[object]) -> tuple[Trigger, ...]:
    return tuple(_trigger(item) for item in source if is_mapping(item))


def _trigger(value: Mapping[str, object]) -> Trigger:
    conditions, effects = value.get("conditions"), value.get("effect")
    return Trigger(
        comment=_text(value.get("comment")),
        type=_text(value.get("type")),
        conditions=_objects(conditions) if is_sequence(conditions) else None,
        effects=_linked(_objects(effects)) if is_sequence(effects) else (),
    )


def _linked(effects: Sequence[FrozenObject]) -> tuple[Effect, ...]:
    """Find all jumps in two passes: forward jumps from the end, loops from the start."""
    plain = [_effect(each) for each in effects]
    jumps = [-1] * len(plain)
    ends: dict[float, int] = {}
    loop_end = len(plain)
    for index in range(len(plain) - 1, -1, -1):
        effect = plain[index]
        match effect.type:
            case "v2If" | "v2IfAdvanced" | "v2Else":
                end = ends.get(effect.indent + 1) if effect.indent is not None else None
                jumps[index] = _after(plain, end, effect)
            case "v2BreakLoop":  # the end of any loop, whatever its indent: perhaps of one that begins after the break
                jumps[index] = loop_end
            case "v2EndIndent":
                if effect.indent is not None:
                    ends[effect.indent] = index
                if truthy(effect.fields.get("endOfLoop")):
                    loop_end = index + 1
            case _:
                pass
    openers: dict[float, int] = {}
    for index, effect in enumerate(plain):
        if effect.indent is None:
            continue
        if effect.type in _LOOPS:
            openers[effect.indent] = index
        elif effect.type == "v2EndIndent":
            jumps[index] = openers.get(effect.indent - 1, -1)
    return tuple(
        Effect(effect.type, effect.fields, effect.indent, effect.has_indent, jump)
        for effect, jump in zip(plain, jumps, strict=True)
    )


def _after(effects: Sequence[Effect], end: int | None, effect: Effect) -> int:
    """Return where to continue after a false if (or a reached else); after the last effect if there is no end."""
    if end is None:
        return len(effects)
    following = end + 1
    if effect.type != "v2Else" and following < len(effects):
        other = effects[following]
        if other.type == "v2Else" and other.indent == effect.indent:
            return following + 1
    return following


def _effect(value: FrozenObject) -> Effect:
    indent = value.get("indent")
    number = indent if isinstance(indent, (int, float)) and not isinstance(indent, bool) else None
    return Effect(_text(value.get("type")), value, number, "indent" in value)


def _objects(values: Iterable[object]) -> tuple[FrozenObject, ...]:
    return tuple(freeze_object(item) if is_mapping(item) else EMPTY_OBJECT for item in values)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class OwnedTrigger:
    """A trigger with the rights its owner has: low level access comes from the character or the module."""

    trigger: Trigger
    low_level: bool
    owner: str


def acting_character(context: CBSContext) -> RisuCharacter | None:
    """Whose triggers run: the speaking character, else the selected one."""
    speaker = context.speaker
    if isinstance(speaker, RisuCharacter) and not speaker.is_group:
        return speaker
    return context.character


def all_triggers(context: CBSContext, character: RisuCharacter | None) -> list[OwnedTrigger]:
    """The character's triggers, then those of the enabled modules. A group has none of its own.

    A right that is stored with a trigger does not count: RisuAI overwrites it with its owner's.
    """
    found: list[OwnedTrigger] = []
    if character is not None and not character.is_group:
        access = truthy(character.raw.get("lowLevelAccess"))
        owner = character.name or "the character"
        found += [OwnedTrigger(each, access, owner) for each in read_triggers(character.raw.get("triggerscript"))]
    for module in context.enabled_modules:
        access = truthy(module.raw.get("lowLevelAccess"))
        owner = f"module {module.name or module.id}"
        found += [OwnedTrigger(each, access, owner) for each in read_triggers(module.raw.get("trigger"))]
    return found


def selected(triggers: list[OwnedTrigger], mode: str, name: str) -> Iterator[OwnedTrigger]:
    """Return those that a mode or a manual name selects."""
    for owned in triggers:
        trigger = owned.trigger
        # A name ignores the type: a `start` trigger that is called like that runs, too.
        if trigger.always_selected or (trigger.comment == name if name else trigger.type == mode):
            yield owned


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
"""The effects that run in modes which only edit a text; all others are skipped there.

RisuAI's list. ``v2Loop`` is missing, but its loops work, because their ends do; ``v2ReplaceString`` is missing, too.
"""
