"""The order of a build."""

from __future__ import annotations

from tavernkit.prompt._pipeline import HooksStep, Pipeline
from tavernkit.risu_ai._state import RisuState
from tavernkit.risu_ai._steps.cbs import CbsStep
from tavernkit.risu_ai._steps.history import RegexScriptsStep, TriggersStep
from tavernkit.risu_ai._steps.memory import MemoryStep
from tavernkit.risu_ai._steps.plan_assembly import PlanAssemblyStep
from tavernkit.risu_ai._steps.prepare import LoreStep, PrepareStep
from tavernkit.risu_ai._steps.template_assembly import TemplateAssemblyStep

PIPELINE: Pipeline[RisuState] = Pipeline(
    HooksStep(),  # the application's own functions, before and after
    PrepareStep(),  # preset, speaker, template; stored messages are permanently expanded
    LoreStep(),  # which lore is active
    CbsStep(),  # every slot's text expanded and counted; examples, start line and greeting
    TriggersStep(),  # start triggers: they may change the chat, add texts, or stop the send
    RegexScriptsStep(),  # the history, each message through its scripts
    MemoryStep(),  # long-term memory, or the oldest chat items dropped
    TemplateAssemblyStep(),  # lore into the chat; the cards, or the preset's order
    PlanAssemblyStep(),  # Lua's edits, the recheck, the plan
)
"""RisuAI's send up to the request. Every editing method returns a new pipeline for ``Builder.with_pipeline``."""
