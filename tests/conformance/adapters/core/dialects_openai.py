"""core/dialects_openai: messages or plan blocks in, a provider's payload or error out."""

from __future__ import annotations

from tavernkit.dialects import convert
from tavernkit.errors import ConfigError, WarningLog
from tavernkit.prompt import Block, Message, Plan
from tests.conformance.runner import Case


def run(case: Case) -> object:
    dialect = case.input["dialect"]
    options = {"warn": WarningLog(), **case.input.get("options", {})}
    try:
        if "plan_blocks" in case.input:
            plan = Plan(blocks=[Block(**fields) for fields in case.input["plan_blocks"]])
            payload = plan.to_messages(dialect, **options)
        else:
            payload = convert([Message(**fields) for fields in case.input["messages"]], dialect, **options)
    except ConfigError as error:
        return {"error": {"class": "ConfigError", "code": error.code}}
    return {"payload": payload}
