"""The legacy macros: `macros_v1.jsonl`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from tavernkit.silly_tavern._macros import LegacyMacroEngine, MacroCall, Overrides
from tests.conformance.adapters.silly_tavern.macro_case import POST_PROCESSORS, read_case
from tests.conformance.runner import Case


def throws(_call: MacroCall) -> str:
    raise RuntimeError("as asked")


HANDLERS: dict[str, Callable[[MacroCall], object]] = {
    "show_args": lambda call: f"<{'|'.join(call.args)}>",
    "show_name": lambda call: f"<{call.name}>",
    "throws": throws,
    "ret_null": lambda _call: None,
    "ret_undefined": lambda _call: None,
    "ret_number": lambda _call: 42.5,
    "ret_bool": lambda _call: True,
    "ret_object": lambda _call: {"b": 1, "a": [1, "x", None]},
    "ret_array": lambda _call: [1, "two", False],
    "ret_date": lambda _call: datetime(2001, 2, 3, 4, 5, 6, 7000, tzinfo=UTC),
    "ret_macro_text": lambda _call: "{{user}}",
    "const_fn": lambda _call: "from-fn",
}


def read_macros(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: HANDLERS[value["$fn"]] if isinstance(value, dict) and "$fn" in value else value
        for name, value in data.items()
    }


def run(case: Case) -> object:
    given = read_case(case.input["env"])
    engine = LegacyMacroEngine(read_macros(case.input.get("register", {})))
    options = case.input.get("options", {})
    overrides = Overrides(
        user_name=options.get("name1Override"),
        character_name=options.get("name2Override"),
        group=options.get("groupOverride"),
        original=options.get("original"),
        card=options.get("replaceCharacterCard", True),
        macros=read_macros(options.get("dynamicMacros", {})),
        post_process=POST_PROCESSORS.get(options.get("postProcessFn")),
    )
    result = engine.evaluate(case.input["text"], given.environment, overrides)
    return given.outcome(result.text, result.diagnostics)
