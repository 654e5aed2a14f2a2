"""Builds of group chats from a data folder."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from tests.conformance.adapters.silly_tavern.folder_inputs import data_folder
from tests.conformance.runner import VECTORS, Case


@cache
def settings() -> Any:
    return json.loads((VECTORS / "silly_tavern" / "build_group_folder.settings.json").read_text("utf-8"))


def run(case: Case) -> object:
    given = case.input
    with data_folder(given, settings()) as folder:
        plan = folder.builder(group="group").build(**generation(given["generate"]))
        return plan.to_request()


def generation(given: Any) -> dict[str, Any]:
    return {
        "generation_type": given["type"],
        "message": given.get("message", ""),
        "quiet_prompt": given.get("quiet_prompt", ""),
        **({"speaker": given["speaker"]} if "speaker" in given else {}),
        "random": lambda: 0.0,
        "on_overflow": "return",
        "warn": None,
    }
