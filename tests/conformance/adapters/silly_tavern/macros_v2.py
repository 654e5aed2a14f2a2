"""Macros 2.0: `macros_v2.jsonl`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from tavernkit.errors import ConfigError
from tavernkit.silly_tavern._macros import (
    MacroArgument,
    MacroCall,
    MacroDefinition,
    MacroEngine,
    MacroListArgument,
    Overrides,
    silly_tavern_registry,
)
from tests.conformance.adapters.silly_tavern.macro_case import POST_PROCESSORS, read_case
from tests.conformance.runner import Case

ENGINE = MacroEngine(silly_tavern_registry())


def throws(_call: MacroCall) -> str:
    raise RuntimeError("as asked")


def show_split(call: MacroCall) -> str:
    items = f"[{'|'.join(call.items)}]" if call.definition.list else ""
    return f"<{'|'.join(call.positional)}>{items}"


HANDLERS: dict[str, Callable[[MacroCall], object]] = {
    "show_args": lambda call: f"<{'|'.join(call.args)}>",
    "show_split": show_split,
    "show_raw": lambda call: f"<{call.raw}>",
    "show_scoped": lambda call: f"<{str(call.scoped).lower()}:{len(call.args)}>",
    "show_flags": lambda call: f"<{call.flags}>",
    "show_offset": lambda call: f"<@{call.offset}>",
    "show_name": lambda call: f"<{call.name}>",
    "resolve_first": lambda call: f"<{call.args[0]}=>{call.resolve(call.args[0])}>",
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


def read_definition(name: str, data: Mapping[str, Any]) -> MacroDefinition:
    args = data.get("unnamedArgs", 0)
    if isinstance(args, int):
        if args < 0:
            raise ConfigError("a count of arguments cannot be negative")
        specs = [MacroArgument(f"arg{index}") for index in range(args)]
    else:
        specs = [read_argument(each) for each in args]
    listed = data.get("list")
    if listed is not None and listed is not True and not isinstance(listed, dict):
        raise ConfigError("a list is true or has bounds")
    bounds = listed if isinstance(listed, dict) else {}
    return MacroDefinition(
        name=name,
        handler=HANDLERS.get(data.get("$handler", "")),
        args=specs,
        list=None if listed is None else MacroListArgument(bounds.get("min", 0), bounds.get("max")),
        aliases=[each["alias"] for each in data.get("aliases", ())],
        strict_args=data.get("strictArgs", True),
        delayed=data.get("delayArgResolution", False),
    )


def read_argument(data: Mapping[str, Any]) -> MacroArgument:
    types: Any = data.get("type", "string")
    types = [types] if isinstance(types, str) else types
    return MacroArgument(data["name"], types, data.get("optional", False))


def read_dynamic(name: str, value: Any) -> Any:
    if isinstance(value, dict) and "$fn" in value:
        return HANDLERS[value["$fn"]]
    if isinstance(value, dict) and "$handler" in value:
        try:
            return read_definition(name, value)
        except ConfigError:
            return None
    return value


def run(case: Case) -> object:
    given = read_case(case.input["env"])
    engine, registered = ENGINE, {}
    if "register" in case.input:
        registry = silly_tavern_registry(warn=lambda _message: None)
        for name, data in case.input["register"].items():
            try:
                registry.add(read_definition(name, data))
            except ConfigError:
                registered[name] = False
            else:
                registered[name] = True
        engine = MacroEngine(registry)
    options = case.input.get("options", {})
    overrides = Overrides(
        user_name=options.get("name1Override"),
        character_name=options.get("name2Override"),
        group=options.get("groupOverride"),
        original=options.get("original"),
        card=options.get("replaceCharacterCard", True),
        macros={name: read_dynamic(name, value) for name, value in options.get("dynamicMacros", {}).items()},
        post_process=POST_PROCESSORS.get(options.get("postProcessFn")),
    )
    result = engine.evaluate(case.input["text"], given.environment, overrides)
    return given.outcome(result.text, result.diagnostics, registered=registered)
