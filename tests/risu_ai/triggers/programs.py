"""Short ways to write triggers and run them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat, RisuMessage
from tavernkit.risu_ai._triggers import TriggerEngine, TriggerLimits, TriggerResult
from tavernkit.stores._variables import InMemoryVariablesStore


def trigger(*effects: Mapping[str, Any], name: str = "t", mode: str = "start", **fields: Any) -> dict[str, Any]:
    return {"comment": name, "type": mode, "conditions": [], "effect": list(effects), **fields}


def lua(code: str, **fields: Any) -> dict[str, Any]:
    return trigger({"type": "triggerlua", "code": code}, **fields)


def setvar(var: str, value: str, operator: str = "=") -> dict[str, str]:
    return {"type": "setvar", "operator": operator, "var": var, "value": value}


def world(
    *triggers: Mapping[str, Any],
    messages: Sequence[tuple[str, str]] = (),
    variables: Mapping[str, Any] | None = None,
    **character: Any,
) -> CBSContext:
    raw = {"name": "Mira", "chaId": "mira", "triggerscript": list(triggers), **character}
    return CBSContext(
        char=RisuCharacter.from_json(raw),
        user="Alex",
        chat=RisuChat(messages=tuple(RisuMessage(role=role, data=text) for role, text in messages)),
        variables=InMemoryVariablesStore({"local": dict(variables or {})}),
    )


class Outcome:
    """A result with the warnings that came with it."""

    def __init__(self, result: TriggerResult, warnings: list[str]) -> None:
        self.result = result
        self.warnings = warnings

    def __getitem__(self, name: str) -> Any:
        return self.result.variables.get(name)


def run(*triggers: Mapping[str, Any], mode: str = "start", name: str = "", **fields: Any) -> Outcome:
    limits = fields.pop("limits", None)
    engine = fields.pop("engine", None) or TriggerEngine(limits=limits or TriggerLimits())
    options = {key: fields.pop(key) for key in ("host", "strict", "selected_persona", "display_data") if key in fields}
    warnings: list[str] = []
    result = engine.run(world(*triggers, **fields), mode, name=name, warn=warnings.append, **options)
    return Outcome(result, warnings)
