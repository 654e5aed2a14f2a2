"""A build is a pure function of its context: every recorded build, twice from the same context."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tavernkit import risu_ai
from tavernkit import silly_tavern as st
from tavernkit.errors import TavernKitError
from tests.conformance.adapters.risu_ai import build as risu_build
from tests.conformance.adapters.silly_tavern import build_chat, build_text
from tests.conformance.runner import Case, cases

SURFACES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "silly_tavern/build_chat": build_chat.inputs,
    "silly_tavern/build_text": build_text.inputs,
    "risu_ai/build": risu_build.inputs,
}


def outcome(run: Callable[[], Any]) -> object:
    try:
        plan = run()
    except TavernKitError as error:
        return f"{type(error).__name__}: {error}"
    return plan.fingerprint(), plan.variables, plan.warnings


@pytest.mark.parametrize("surface", SURFACES)
def test_the_same_context_gives_the_same_bytes(surface: str) -> None:
    different = [case.id for case in cases(surface) if not same_twice(case, SURFACES[surface])]
    assert different == []


def same_twice(case: Case, read: Callable[[Any], dict[str, Any]]) -> bool:
    # The recorded dice would go on between two builds: a seed takes their place.
    inputs = {**read(case.input), "random": None, "seed": 7}
    builder: Any = risu_ai.Builder() if case.surface.startswith("risu_ai") else st.Builder()
    try:
        context = builder.make_context(**inputs)
    except TavernKitError:
        return True  # refused before there is anything to build
    return outcome(lambda: builder.run(context)) == outcome(lambda: builder.run(context))
