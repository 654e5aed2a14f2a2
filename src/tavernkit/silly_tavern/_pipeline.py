"""The order of a build: one table for chat completion, one for text completion."""

from __future__ import annotations

from collections.abc import Mapping

from tavernkit.prompt._pipeline import HooksStep, Pipeline
from tavernkit.silly_tavern._state import Half, SillyTavernState
from tavernkit.silly_tavern._steps.chat_layout import (
    CompilationStep,
    EntriesStep,
    InjectionStep,
    MacroExpansionStep,
    PinnedGroupsStep,
)
from tavernkit.silly_tavern._steps.lore import LoreStep
from tavernkit.silly_tavern._steps.plan_assembly import PlanAssemblyStep
from tavernkit.silly_tavern._steps.prepare import PrepareStep
from tavernkit.silly_tavern._steps.text import (
    StoryStringStep,
    TextCompilationStep,
    TextEntriesStep,
    TextInjectionStep,
    TextLoreStep,
    TextMacroExpansionStep,
    TextPlanAssemblyStep,
    TextPrepareStep,
    TextTrimmingStep,
)
from tavernkit.silly_tavern._steps.trimming import TrimmingStep

CHAT_PIPELINE: Pipeline[SillyTavernState] = Pipeline(
    HooksStep(),  # the application's own functions, before and after
    PrepareStep(),  # this turn's chat, the card, the examples, the author's note
    LoreStep(),  # what World Info adds
    EntriesStep(),  # the preset's prompts that are active, in order
    PinnedGroupsStep(),  # lore, card, persona and registry in their places; the card's overrides
    InjectionStep(),  # what is in the chat at a depth, or next to the main prompt
    CompilationStep(),  # control prompts, tools, nudges, examples: the layout is complete
    MacroExpansionStep(),  # the texts that are expanded last
    PlanAssemblyStep(),  # the budget is applied, as in SillyTavern; the plan and the request's fields
    TrimmingStep(),  # reports what was left out; refuses a prompt that lacks what it must have
)
"""SillyTavern's chat completion. Every editing method gives a new pipeline for ``Builder.with_pipeline``."""

TEXT_PIPELINE: Pipeline[SillyTavernState] = Pipeline(
    HooksStep(),  # the application's own functions, before and after
    TextPrepareStep(),  # this turn's chat, the card, the examples, the author's note; instruct mode and guidance
    TextLoreStep(),  # what World Info adds
    TextEntriesStep(),  # example dialogue and the system prompt
    StoryStringStep(),  # card, persona and lore in the story string
    TextInjectionStep(),  # what is in the chat at a depth, and post-history instructions
    TextCompilationStep(),  # the chat as text, and the line that the reply follows
    TextMacroExpansionStep(),  # the texts that are expanded last
    TextPlanAssemblyStep(),  # the budget is applied; the text and its stop strings
    TextTrimmingStep(),  # reports what was left out
)
"""SillyTavern's text completion (``dialect="text"``)."""


def _until(pipeline: Pipeline[SillyTavernState], name: str) -> Pipeline[SillyTavernState]:
    """Return the steps before one of them."""
    return Pipeline(*list(pipeline)[: pipeline.names.index(name)])


TRACED_PIPELINES: Mapping[tuple[Half | None, bool], Pipeline[SillyTavernState]] = {
    (None, False): _until(CHAT_PIPELINE, "plan_assembly"),
    (None, True): _until(TEXT_PIPELINE, "plan_assembly"),
    ("story", False): _until(CHAT_PIPELINE, "injection"),
    ("story", True): _until(TEXT_PIPELINE, "injection"),
    ("chat", False): Pipeline(HooksStep()),  # only for a message that hooks changed
    ("chat", True): _until(TEXT_PIPELINE, "plan_assembly"),
}
"""The steps that write the texts of a prompt, or of one half, for source maps: of chat and of text completion."""
