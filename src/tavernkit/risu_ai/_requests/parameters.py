"""The values of a request's parameters, and the schema of its reply, from RisuAI's settings."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values.numbers import as_float
from tavernkit._values import FrozenJson, Json, JsonObject, is_mapping, thaw
from tavernkit.risu_ai._files.preset import UNSET_SAMPLER
from tavernkit.risu_ai._requests.messages import RequestRules

MAIN_MODE, HELPER_MODE = "model", "otherAx"
"""What requests are for: the reply itself, and what has no other name."""

_UNSET = object()


@dataclass(frozen=True, slots=True)
class Parameter:
    """Where a parameter is stored: its key, what it is divided by, its default, and names for its numbers."""

    key: str
    divisor: int = 1
    default: float | None = None
    names: Mapping[float, str] | None = None


PARAMETERS: Mapping[str, Parameter] = {
    "temperature": Parameter("temperature", 100, 80),
    "frequency_penalty": Parameter("frequencyPenalty", 100, 70),
    "presence_penalty": Parameter("PresensePenalty", 100, 70),
    "top_p": Parameter("top_p", default=1),
    "top_k": Parameter("top_k", default=0),
    "min_p": Parameter("min_p", default=0),
    "top_a": Parameter("top_a", default=0),
    "repetition_penalty": Parameter("repetition_penalty", default=1),
    "thinking_tokens": Parameter("thinkingTokens"),
    "reasoning_effort": Parameter(
        "reasoningEffort", default=0, names={-1: "minimal", 0: "low", 1: "medium", 2: "high"}
    ),
    "verbosity": Parameter("verbosity", default=1, names={0: "low", 1: "medium", 2: "high"}),
}
"""RisuAI's parameters by the name they are sent under."""

_OTHER_NAME = "medium"
"""What a number without a name stands for."""


def parameter_values(rules: RequestRules, names: Iterable[str], *, mode: str = MAIN_MODE) -> dict[str, Json]:
    """The values of parameters, in order; one that is not set is left out, one that is null is kept.

    Args:
        rules: The model and the settings.
        names: The parameters wanted.
        mode: What the request is for: helper requests may have parameters of their own.
    """
    return {name: value for name in names if (value := _value(rules, PARAMETERS[name], name, mode)) is not _UNSET}  # pyright: ignore[reportReturnType]  # what is unset is left out


def is_switched_off(rules: RequestRules, name: str, *, mode: str = MAIN_MODE) -> bool:
    """Return True if the user disabled a parameter; one without a stored value is not disabled.

    Args:
        rules: The model and the settings.
        name: The parameter.
        mode: What the request is for.
    """
    return _stored(rules, PARAMETERS[name], name, mode) == UNSET_SAMPLER


def _value(rules: RequestRules, parameter: Parameter, name: str, mode: str) -> object:
    stored = _stored(rules, parameter, name, mode)
    if stored is _UNSET or stored == UNSET_SAMPLER:
        return _UNSET
    if parameter.names is not None:
        return parameter.names.get(stored, _OTHER_NAME) if isinstance(stored, (int, float)) else _OTHER_NAME
    if stored is None or isinstance(stored, bool) or not isinstance(stored, (int, float)):
        return thaw(stored)
    number = as_float(stored)
    if not math.isfinite(number):  # JSON has no such number
        return None
    return number / parameter.divisor if parameter.divisor != 1 else stored


def _stored(rules: RequestRules, parameter: Parameter, name: str, mode: str) -> object:
    separate = rules.setting("seperateParameters")
    if mode != MAIN_MODE and rules.setting("seperateParametersEnabled") and is_mapping(separate):
        own = separate.get(mode)
        return own.get(name, _UNSET) if is_mapping(own) else _UNSET
    typed: Mapping[str, FrozenJson] = {
        "temperature": rules.preset.temperature,
        "frequency_penalty": rules.preset.frequency_penalty,
        "presence_penalty": rules.preset.presence_penalty,
        "top_p": rules.preset.top_p,
    }
    if name in typed:
        return typed[name]
    for source in (rules.preset.raw, rules.settings.raw):
        if parameter.key in source:
            return source[parameter.key]
    return _UNSET if parameter.default is None else parameter.default


DIALECT = "https://json-schema.org/draft/2020-12/schema"
MAX_SCHEMA = 100_000
"""Characters of a schema that are read."""

_KEY = re.compile(r"\s*[\"']?([\w$-]+)[\"']?\s*\??\s*:\s*([\w$]+)\s*((?:\[\s*\]\s*)*)[;,]?\s*")
_TYPES = frozenset({"string", "number", "boolean"})


def wanted_schema(rules: RequestRules) -> JsonObject | None:
    """The schema that replies must follow, if the user wants one."""
    text = rules.setting("jsonSchema")
    return schema_of(text) if rules.setting("jsonSchemaEnabled") and isinstance(text, str) else None


def schema_of(text: str) -> JsonObject:
    """Turn an interface into a schema: all keys are required, no others are allowed."""
    properties: JsonObject = {}
    lines = text[:MAX_SCHEMA].strip().split("\n")
    for line in lines[1:]:  # the first one opens the interface
        found = _KEY.fullmatch(line)
        if found is not None and found[2] in _TYPES:
            kind: Json = {"type": found[2]}
            for _ in range(found[3].count("[")):
                kind = {"type": "array", "items": kind}
            properties[found[1]] = kind
    return {
        "$schema": DIALECT,
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "required": [*properties],
    }
