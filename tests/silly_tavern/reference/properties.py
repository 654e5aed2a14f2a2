"""Builds of random scenes give what the straightforward way gives."""

from __future__ import annotations

from hypothesis import strategies as st

from tavernkit.silly_tavern import Builder, TextPlan
from tests.silly_tavern.reference.chat import ChatReference
from tests.silly_tavern.reference.scenes import chat_inputs, chat_scene, text_inputs, text_scene
from tests.silly_tavern.reference.text import TextReference

BUILDER = Builder(random=lambda: 0.0)
"""One for all scenes, so that what it keeps from build to build takes part."""

seeds = st.integers(0, 2**32)


def check_chat(seed: int) -> None:
    """The messages, the rest of the budget, and if something that must be there does not fit."""
    scene = chat_scene(seed)
    plan = BUILDER.build(**chat_inputs(scene))
    assert (plan.to_request()["messages"], plan.budget_left, plan.overflow is not None) == ChatReference(scene).build()


def check_text(seed: int) -> None:
    """The prompt, the negative one and the stop strings."""
    scene = text_scene(seed)
    plan = BUILDER.build(**text_inputs(scene))
    assert isinstance(plan, TextPlan)
    built = plan.prompt, plan.negative_prompt, list(plan.stop_strings)
    assert built == TextReference(scene).build()
