from tavernkit.vibe_tavern.blocking import BlockingRunner as BlockingRunner
from tavernkit.vibe_tavern.capabilities import Capabilities as Capabilities
from tavernkit.vibe_tavern.capabilities import CapabilitiesRegistry as CapabilitiesRegistry
from tavernkit.vibe_tavern.context import VibeTavernContext as VibeTavernContext
from tavernkit.vibe_tavern.context import VibeTavernInputs as VibeTavernInputs
from tavernkit.vibe_tavern.directives.model import DirectivesModel as DirectivesModel
from tavernkit.vibe_tavern.directives.model import DirectivesReply as DirectivesReply
from tavernkit.vibe_tavern.directives.output_options import StructuredOutputOptions as StructuredOutputOptions
from tavernkit.vibe_tavern.directives.payload_validators import (
    pydantic_payload_validator as pydantic_payload_validator,
)
from tavernkit.vibe_tavern.directives.registry import DirectiveDefinition as DirectiveDefinition
from tavernkit.vibe_tavern.directives.registry import DirectiveRegistry as DirectiveRegistry
from tavernkit.vibe_tavern.directives.runner import DirectivesResult as DirectivesResult
from tavernkit.vibe_tavern.directives.runner import DirectivesRunner as DirectivesRunner
from tavernkit.vibe_tavern.errors import LiquidError as LiquidError
from tavernkit.vibe_tavern.errors import PreflightError as PreflightError
from tavernkit.vibe_tavern.errors import ToolArgumentError as ToolArgumentError
from tavernkit.vibe_tavern.errors import ToolLoopLimitError as ToolLoopLimitError
from tavernkit.vibe_tavern.errors import ToolUseError as ToolUseError
from tavernkit.vibe_tavern.evals.catalogue import EvalModel as EvalModel
from tavernkit.vibe_tavern.evals.harness import EvalOptions as EvalOptions
from tavernkit.vibe_tavern.evals.harness import EvalProgress as EvalProgress
from tavernkit.vibe_tavern.evals.harness import run_evals as run_evals
from tavernkit.vibe_tavern.evals.report import EvalReport as EvalReport
from tavernkit.vibe_tavern.evals.run_log import RunLog as RunLog
from tavernkit.vibe_tavern.liquid_macros.render import render_liquid as render_liquid
from tavernkit.vibe_tavern.output_tags.sanitizers import register_sanitizer as register_sanitizer
from tavernkit.vibe_tavern.pipeline import PIPELINE as PIPELINE
from tavernkit.vibe_tavern.pipeline import Builder as Builder
from tavernkit.vibe_tavern.pipeline import build as build
from tavernkit.vibe_tavern.pipeline import to_messages as to_messages
from tavernkit.vibe_tavern.prompt_runner import PromptRequest as PromptRequest
from tavernkit.vibe_tavern.prompt_runner import PromptResult as PromptResult
from tavernkit.vibe_tavern.prompt_runner import PromptRunner as PromptRunner
from tavernkit.vibe_tavern.runner_config import Infrastructure as Infrastructure
from tavernkit.vibe_tavern.runner_config import RunnerConfig as RunnerConfig
from tavernkit.vibe_tavern.section_options import DirectivesOptions as DirectivesOptions
from tavernkit.vibe_tavern.section_options import EscapeHatchOptions as EscapeHatchOptions
from tavernkit.vibe_tavern.section_options import LanguagePolicyOptions as LanguagePolicyOptions
from tavernkit.vibe_tavern.section_options import OutputTagsOptions as OutputTagsOptions
from tavernkit.vibe_tavern.section_options import TagRuleOptions as TagRuleOptions
from tavernkit.vibe_tavern.section_options import ToggleOptions as ToggleOptions
from tavernkit.vibe_tavern.section_options import TokenEstimationOptions as TokenEstimationOptions
from tavernkit.vibe_tavern.section_options import ToolCallingOptions as ToolCallingOptions
from tavernkit.vibe_tavern.telemetry import OpenTelemetryInstrumenter as OpenTelemetryInstrumenter
from tavernkit.vibe_tavern.tool_calling.functions import FunctionToolset as FunctionToolset
from tavernkit.vibe_tavern.tool_calling.loop import ToolLoopRunner as ToolLoopRunner
from tavernkit.vibe_tavern.tool_calling.mcp import McpToolset as McpToolset
from tavernkit.vibe_tavern.tool_calling.mcp import connect_mcp as connect_mcp
from tavernkit.vibe_tavern.tool_calling.registry import FilteredToolRegistry as FilteredToolRegistry
from tavernkit.vibe_tavern.tool_calling.registry import ToolDefinition as ToolDefinition
from tavernkit.vibe_tavern.tool_calling.registry import ToolRegistry as ToolRegistry
from tavernkit.vibe_tavern.tool_calling.run import ToolLoopResult as ToolLoopResult
from tavernkit.vibe_tavern.tool_calling.toolset import CombinedToolset as CombinedToolset
from tavernkit.vibe_tavern.user_input import preprocess_user_input as preprocess_user_input

__all__: list[str]
