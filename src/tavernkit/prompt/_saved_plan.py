"""Plans as JSON, written and read back."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TypeVar

from tavernkit._arguments import check_values
from tavernkit._values import JsonObject, freeze, is_mapping, is_sequence, shown, thaw
from tavernkit.cards._json_text import parse_json
from tavernkit.cards._source import FileContent, called, read_file
from tavernkit.errors import ConfigError, FileFormatError, Warn
from tavernkit.prompt._block import Block, Moved, Omission
from tavernkit.prompt._plan import Plan, RenderedText, TextSpan
from tavernkit.stores._variables import VariableChanges

RecordT = TypeVar("RecordT", Block, Moved, Omission, TextSpan)

SCHEMA_VERSION = 1
"""The schema version of saved plans. It increases when older versions cannot read a plan."""

MAX_PLAN_BYTES = 256 << 20
"""The largest file that is read."""

_CODE = "INVALID_PLAN"


def plan_dict(plan: Plan) -> JsonObject:
    """Write a plan; see ``Plan.to_dict()``."""
    return {
        "schema_version": SCHEMA_VERSION,
        "blocks": [block.to_dict() for block in plan.blocks],
        "messages": [message.to_serializable_dict() for message in plan.messages],
        "rendered": None
        if plan.rendered is None
        else {
            "text": plan.rendered.text,
            "stop_sequences": list(plan.rendered.stop_sequences),
            "spans": [{"start": s.start, "end": s.end, "block_id": s.block_id} for s in plan.rendered.spans],
        },
        "outlets": thaw(plan.outlets),
        "greeting": plan.greeting,
        "greeting_index": plan.greeting_index,
        "llm_options": thaw(plan.llm_options),
        "sampling": thaw(plan.sampling),
        "counting_note": plan.counting_note,
        "variables": plan.variables.to_dict(),
        "metadata_changes": thaw(plan.metadata_changes),
        "warnings": list(plan.warnings),
        "degraded": list(plan.degraded),
        "omissions": [dataclasses.asdict(omission) for omission in plan.omissions],
        "moved": [dataclasses.asdict(moved) for moved in plan.moved],
    }


def load_plan(source: FileContent, warn: Warn) -> Plan:
    """Read a file; see ``Plan.load()``."""
    content = read_file(source, MAX_PLAN_BYTES, limit="MAX_PLAN_BYTES")
    try:
        return read_plan(parse_json(content, what=called(source), warn=warn))
    except ConfigError as error:
        raise FileFormatError(f"{called(source)}: {error}") from error


def read_plan(data: object) -> Plan:
    """Read a plan; see ``Plan.from_dict()``."""
    if not is_mapping(data) or "blocks" not in data:
        raise ConfigError(f"not a saved plan: {shown(data)}", code=_CODE)
    version = data.get("schema_version", SCHEMA_VERSION)
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise ConfigError(
            f"the plan has schema version {shown(version)}, this TavernKit reads up to {SCHEMA_VERSION}", code=_CODE
        )
    greeting, index, note = data.get("greeting"), data.get("greeting_index"), data.get("counting_note")
    try:
        return Plan(
            blocks=tuple(_records(Block, data.get("blocks"))),
            outlets=_object(data, "outlets"),  # pyright: ignore[reportArgumentType]  # JSON, frozen by the plan
            greeting=greeting if isinstance(greeting, str) else None,
            greeting_index=index if isinstance(index, int) else None,
            warnings=_texts(data.get("warnings")),
            degraded=_texts(data.get("degraded")),
            llm_options=_object(data, "llm_options"),  # pyright: ignore[reportArgumentType]  # as above
            omissions=tuple(_records(Omission, data.get("omissions"))),
            rendered=_rendered(data.get("rendered")),
            counting_note=note if isinstance(note, str) else "",
            sampling=_object(data, "sampling"),  # pyright: ignore[reportArgumentType]  # as above
            variables=VariableChanges.from_dict(_object(data, "variables")),
            moved=tuple(_records(Moved, data.get("moved"))),
            metadata_changes=_object(data, "metadata_changes"),  # pyright: ignore[reportArgumentType]  # as above
        )
    except TypeError as error:  # a field is missing, or of another type
        raise ConfigError(f"not a saved plan: {error}", code=_CODE) from error


def _records(kind: type[RecordT], value: object) -> Iterator[RecordT]:
    """Read a list of records; unknown keys, which a later version may write, are ignored."""
    known = {each.name for each in dataclasses.fields(kind)}
    for item in value if is_sequence(value) else ():
        if not is_mapping(item):
            raise TypeError(f"{shown(item)} is not an object")
        values = {key: freeze(given) for key, given in item.items() if key in known}
        check_values(values, kind)
        yield kind(**values)  # pyright: ignore[reportArgumentType]  # checked


def _rendered(value: object) -> RenderedText | None:
    if not is_mapping(value):
        return None
    text = value.get("text")
    if not isinstance(text, str):
        raise TypeError("rendered has no text")
    return RenderedText(text, tuple(_records(TextSpan, value.get("spans"))), _texts(value.get("stop_sequences")))


def _object(data: Mapping[str, object], key: str) -> Mapping[str, object]:
    found = data.get(key)
    return found if is_mapping(found) else {}


def _texts(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if is_sequence(value) else ()
