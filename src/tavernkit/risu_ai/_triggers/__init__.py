"""RisuAI's triggers: V1 and V2 effects, Lua scripts and command lines, bounded and without side effects."""

from tavernkit.risu_ai._triggers.engine import (
    ButtonResult,
    CommandResult,
    EditResult,
    RunOptions,
    TriggerEngine,
    run_triggers,
)
from tavernkit.risu_ai._triggers.host import (
    FetchReply,
    HostRefusedError,
    InlayData,
    LLMReply,
    RefusingHost,
    TriggerHost,
)
from tavernkit.risu_ai._triggers.limits import TriggerLimits
from tavernkit.risu_ai._triggers.result import PromptAdditions, Reloads, StoredState, TriggerEvent, TriggerResult

__all__ = [
    "ButtonResult",
    "CommandResult",
    "EditResult",
    "FetchReply",
    "HostRefusedError",
    "InlayData",
    "LLMReply",
    "PromptAdditions",
    "RefusingHost",
    "Reloads",
    "RunOptions",
    "StoredState",
    "TriggerEngine",
    "TriggerEvent",
    "TriggerHost",
    "TriggerLimits",
    "TriggerResult",
    "run_triggers",
]
