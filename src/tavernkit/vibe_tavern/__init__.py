"""Run prompts on real models: configuration, tools, directives, language policy."""

from typing import TYPE_CHECKING

from tavernkit._lazy import lazy_exports

if TYPE_CHECKING:
    from tavernkit.vibe_tavern.blocking import BlockingRunner as BlockingRunner
    from tavernkit.vibe_tavern.capabilities import Capabilities as Capabilities
    from tavernkit.vibe_tavern.capabilities import CapabilitiesRegistry as CapabilitiesRegistry
    from tavernkit.vibe_tavern.context import VibeTavernContext as VibeTavernContext
    from tavernkit.vibe_tavern.directives.output_options import StructuredOutputOptions as StructuredOutputOptions
    from tavernkit.vibe_tavern.directives.payload_validators import (
        pydantic_payload_validator as pydantic_payload_validator,
    )
    from tavernkit.vibe_tavern.directives.registry import DirectiveDefinition as DirectiveDefinition
    from tavernkit.vibe_tavern.directives.registry import DirectiveRegistry as DirectiveRegistry
    from tavernkit.vibe_tavern.directives.runner import DirectivesResult as DirectivesResult
    from tavernkit.vibe_tavern.directives.runner import DirectivesRunner as DirectivesRunner
    from tavernkit.vibe_tavern.errors import ConnectionFailedError as ConnectionFailedError
    from tavernkit.vibe_tavern.errors import DecodeError as DecodeError
    from tavernkit.vibe_tavern.errors import HTTPError as HTTPError
    from tavernkit.vibe_tavern.errors import LiquidError as LiquidError
    from tavernkit.vibe_tavern.errors import PreflightError as PreflightError
    from tavernkit.vibe_tavern.errors import RequestTimeoutError as RequestTimeoutError
    from tavernkit.vibe_tavern.errors import StreamError as StreamError
    from tavernkit.vibe_tavern.errors import ToolArgumentError as ToolArgumentError
    from tavernkit.vibe_tavern.errors import ToolLoopLimitError as ToolLoopLimitError
    from tavernkit.vibe_tavern.errors import ToolUseError as ToolUseError
    from tavernkit.vibe_tavern.errors import TransportError as TransportError
    from tavernkit.vibe_tavern.evals.catalogue import EvalModel as EvalModel
    from tavernkit.vibe_tavern.evals.harness import EvalOptions as EvalOptions
    from tavernkit.vibe_tavern.evals.harness import EvalProgress as EvalProgress
    from tavernkit.vibe_tavern.evals.harness import run_evals as run_evals
    from tavernkit.vibe_tavern.evals.report import EvalReport as EvalReport
    from tavernkit.vibe_tavern.evals.run_log import RunLog as RunLog
    from tavernkit.vibe_tavern.infrastructure import Infrastructure as Infrastructure
    from tavernkit.vibe_tavern.liquid_macros.render import render_liquid as render_liquid
    from tavernkit.vibe_tavern.output_tags.sanitizers import register_sanitizer as register_sanitizer
    from tavernkit.vibe_tavern.pipeline import PIPELINE as PIPELINE
    from tavernkit.vibe_tavern.pipeline import Builder as Builder
    from tavernkit.vibe_tavern.pipeline import build as build
    from tavernkit.vibe_tavern.pipeline import to_messages as to_messages
    from tavernkit.vibe_tavern.prompt_runner import PromptRequest as PromptRequest
    from tavernkit.vibe_tavern.prompt_runner import PromptResult as PromptResult
    from tavernkit.vibe_tavern.prompt_runner import PromptRunner as PromptRunner
    from tavernkit.vibe_tavern.runner_config import RunnerConfig as RunnerConfig
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
    from tavernkit.vibe_tavern.transports.anthropic import AnthropicTransport as AnthropicTransport
    from tavernkit.vibe_tavern.transports.base import ChatChunk as ChatChunk
    from tavernkit.vibe_tavern.transports.base import ChatResponse as ChatResponse
    from tavernkit.vibe_tavern.transports.base import ToolCallDelta as ToolCallDelta
    from tavernkit.vibe_tavern.transports.base import Transport as Transport
    from tavernkit.vibe_tavern.transports.chat import chat as chat
    from tavernkit.vibe_tavern.transports.endpoint import Endpoint as Endpoint
    from tavernkit.vibe_tavern.transports.google import GoogleTransport as GoogleTransport
    from tavernkit.vibe_tavern.transports.openai import OpenAITransport as OpenAITransport
    from tavernkit.vibe_tavern.transports.openai_endpoints import OpenAIEndpoints as OpenAIEndpoints
    from tavernkit.vibe_tavern.transports.registry import create_transport as create_transport
    from tavernkit.vibe_tavern.transports.tool_call_deltas import ToolCalls as ToolCalls
    from tavernkit.vibe_tavern.user_input import preprocess_user_input as preprocess_user_input

__getattr__, __all__ = lazy_exports(
    __name__,
    {
        ".blocking": ("BlockingRunner",),
        ".capabilities": ("Capabilities", "CapabilitiesRegistry"),
        ".context": ("VibeTavernContext",),
        ".directives.output_options": ("StructuredOutputOptions",),
        ".directives.payload_validators": ("pydantic_payload_validator",),
        ".directives.registry": ("DirectiveDefinition", "DirectiveRegistry"),
        ".directives.runner": ("DirectivesResult", "DirectivesRunner"),
        ".errors": (
            "ConnectionFailedError",
            "DecodeError",
            "HTTPError",
            "LiquidError",
            "PreflightError",
            "RequestTimeoutError",
            "StreamError",
            "ToolArgumentError",
            "ToolLoopLimitError",
            "ToolUseError",
            "TransportError",
        ),
        ".evals.catalogue": ("EvalModel",),
        ".evals.harness": ("EvalOptions", "EvalProgress", "run_evals"),
        ".evals.report": ("EvalReport",),
        ".evals.run_log": ("RunLog",),
        ".infrastructure": ("Infrastructure",),
        ".liquid_macros.render": ("render_liquid",),
        ".output_tags.sanitizers": ("register_sanitizer",),
        ".pipeline": ("PIPELINE", "Builder", "build", "to_messages"),
        ".prompt_runner": ("PromptRequest", "PromptResult", "PromptRunner"),
        ".runner_config": ("RunnerConfig",),
        ".telemetry": ("OpenTelemetryInstrumenter",),
        ".tool_calling.functions": ("FunctionToolset",),
        ".tool_calling.loop": ("ToolLoopRunner",),
        ".tool_calling.mcp": ("McpToolset", "connect_mcp"),
        ".tool_calling.registry": ("FilteredToolRegistry", "ToolDefinition", "ToolRegistry"),
        ".tool_calling.run": ("ToolLoopResult",),
        ".tool_calling.toolset": ("CombinedToolset",),
        ".transports.anthropic": ("AnthropicTransport",),
        ".transports.base": ("ChatChunk", "ChatResponse", "ToolCallDelta", "Transport"),
        ".transports.chat": ("chat",),
        ".transports.endpoint": ("Endpoint",),
        ".transports.google": ("GoogleTransport",),
        ".transports.openai": ("OpenAITransport",),
        ".transports.openai_endpoints": ("OpenAIEndpoints",),
        ".transports.registry": ("create_transport",),
        ".transports.tool_call_deltas": ("ToolCalls",),
        ".user_input": ("preprocess_user_input",),
    },
)
