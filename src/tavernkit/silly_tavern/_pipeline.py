"""The order of a build: one table for chat completion, one for text completion."""

from __future__ import annotations

from tavernkit.prompt._pipeline import HooksStep, Pipeline
from tavernkit.silly_tavern._state import SillyTavernState
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

CHAT_STORY: Pipeline[SillyTavernState] = Pipeline(*list(CHAT_PIPELINE)[: CHAT_PIPELINE.names.index("injection")])
"""Of chat completion, what writes the prompts around the chat: a source map may need no more."""

CHAT_MESSAGE: Pipeline[SillyTavernState] = Pipeline(HooksStep())
"""Of chat completion, what may change the user's new message before it is sent."""

TEXT_STORY: Pipeline[SillyTavernState] = Pipeline(*list(TEXT_PIPELINE)[: TEXT_PIPELINE.names.index("injection")])
"""Of text completion, what writes the story string."""
