"""The order of a build, at a glance."""

from __future__ import annotations

from tavernkit.prompt.hooks_step import HooksStep
from tavernkit.prompt.pipeline import Pipeline
from tavernkit.silly_tavern.state import SillyTavernState
from tavernkit.silly_tavern.steps.compilation import CompilationStep
from tavernkit.silly_tavern.steps.entries import EntriesStep
from tavernkit.silly_tavern.steps.injection import InjectionStep
from tavernkit.silly_tavern.steps.lore import LoreStep
from tavernkit.silly_tavern.steps.macro_expansion import MacroExpansionStep
from tavernkit.silly_tavern.steps.pinned_groups import PinnedGroupsStep
from tavernkit.silly_tavern.steps.plan_assembly import PlanAssemblyStep
from tavernkit.silly_tavern.steps.trimming import TrimmingStep

PIPELINE: Pipeline[SillyTavernState] = Pipeline(
    HooksStep(),  # the application's own functions, before and after
    LoreStep(),  # this turn's chat, the card, and what World Info adds
    EntriesStep(),  # the preset's prompts that are active, in order
    PinnedGroupsStep(),  # lore, card, persona and registry in their places; the card's overrides
    InjectionStep(),  # what stands in the chat at a depth, or beside the main prompt
    CompilationStep(),  # control prompts, tools, nudges, examples: the layout is complete
    MacroExpansionStep(),  # the texts that are expanded last
    PlanAssemblyStep(),  # the budget decides; the plan and the request's fields
    TrimmingStep(),  # what was left out, told; what may not be left out, refused
)
"""SillyTavern's chat completion. Every editing method gives a new pipeline for ``Builder.with_pipeline``."""
