"""The configuration of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final, Literal, get_args

from tavernkit._arguments import require, require_choice
from tavernkit._dataclass import dataclass
from tavernkit._values import FrozenObject, deep_merge, freeze_object, is_mapping
from tavernkit.errors import ConfigError, log_warning
from tavernkit.prompt._context import Context, normalize_step_configs
from tavernkit.prompt._pipeline import Pipeline
from tavernkit.vibe_tavern._capabilities import Capabilities, CapabilitiesRegistry, default_registry
from tavernkit.vibe_tavern._context import VibeTavernContext, VibeTavernState
from tavernkit.vibe_tavern._directives import config as directives_config
from tavernkit.vibe_tavern._directives.config import DirectivesConfig
from tavernkit.vibe_tavern._options import (
    DirectivesOptions,
    LanguagePolicyOptions,
    OptionReader,
    OutputTagsOptions,
    ToggleOptions,
    TokenEstimationOptions,
    ToolCallingOptions,
    section,
    suggestion,
)
from tavernkit.vibe_tavern._output_tags import OutputTagsConfig, SanitizerRegistry, default_sanitizers
from tavernkit.vibe_tavern._pipeline import PIPELINE
from tavernkit.vibe_tavern._steps import LanguagePolicyConfig
from tavernkit.vibe_tavern._tool_calling import config as tool_config
from tavernkit.vibe_tavern._tool_calling.config import ToolCallingConfig
from tavernkit.vibe_tavern._tool_calling.transforms import (
    MessageTransform,
    ResponseTransform,
    ToolCallTransform,
    ToolResultTransform,
    ToolTransform,
    TransformRegistry,
    message_transforms,
    response_transforms,
    tool_call_transforms,
    tool_result_transforms,
    tool_transforms,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Infrastructure:
    """Registries of a program. The default is shared by the whole process; ``copy()`` returns a separate set."""

    capabilities: CapabilitiesRegistry = field(default_factory=lambda: default_registry)
    """What providers and models support."""
    sanitizers: SanitizerRegistry = field(default_factory=lambda: default_sanitizers)
    """Filters of output tags, by name."""
    message_transforms: TransformRegistry[MessageTransform] = field(default_factory=lambda: message_transforms)
    """Functions that change messages before they are sent, by name."""
    tool_transforms: TransformRegistry[ToolTransform] = field(default_factory=lambda: tool_transforms)
    """Functions that change tool definitions before they are sent, by name."""
    response_transforms: TransformRegistry[ResponseTransform] = field(default_factory=lambda: response_transforms)
    """Functions that change replies, by name."""
    tool_call_transforms: TransformRegistry[ToolCallTransform] = field(default_factory=lambda: tool_call_transforms)
    """Functions that change tool calls of a reply, by name."""
    tool_result_transforms: TransformRegistry[ToolResultTransform] = field(
        default_factory=lambda: tool_result_transforms
    )
    """Functions that change results of tools, by name."""

    def copy(self) -> Infrastructure:
        """Return separate registries that can be changed without affecting others."""
        return Infrastructure(
            capabilities=self.capabilities.copy(),
            sanitizers=self.sanitizers.copy(),
            message_transforms=self.message_transforms.copy(),
            tool_transforms=self.tool_transforms.copy(),
            response_transforms=self.response_transforms.copy(),
            tool_call_transforms=self.tool_call_transforms.copy(),
            tool_result_transforms=self.tool_result_transforms.copy(),
        )


SHARED = Infrastructure()
"""The default registries."""


Presets = Literal["all", "provider", "none"]

RESERVED_LLM_OPTIONS: Final = frozenset(
    ("model", "messages", "tools", "tool_choice", "response_format", "stream", "stream_options")
)
"""Keys that only the runners set."""


@dataclass(frozen=True, kw_only=True)
class RunnerConfig:
    """Provider, model and everything about one request; made with ``build()``, then read-only.

    Its sections are ``tool_calling``, ``directives``, ``language_policy``, ``output_tags``, ``token_estimation`` and
    ``toggles``, given to ``build()`` or in the context's data. Sections override the presets of the provider and model.
    """

    provider: str
    """The provider, such as ``openrouter``."""
    model: str
    """The provider's model id."""
    context: VibeTavernContext
    """The context that prompts are built from."""
    pipeline: Pipeline[VibeTavernState]
    """The steps that build a prompt."""
    llm_options_defaults: FrozenObject
    """Default options of every request."""
    capabilities: Capabilities
    """What the provider and model support."""
    tool_calling: ToolCallingConfig
    directives: DirectivesConfig
    language_policy: LanguagePolicyConfig
    output_tags: OutputTagsConfig
    infrastructure: Infrastructure
    """The registries of transforms, sanitizers and capabilities."""

    @classmethod
    def build(
        cls,
        *,
        provider: str,
        model: str,
        context: Context | Mapping[str, object] | None = None,
        pipeline: Pipeline[VibeTavernState] = PIPELINE,
        step_options: Mapping[str, Mapping[str, object]] | None = None,
        llm_options_defaults: Mapping[str, object] | None = None,
        capabilities_overrides: Mapping[str, object] | None = None,
        infrastructure: Infrastructure = SHARED,
        presets: Presets = "all",
        tool_calling: ToolCallingOptions | None = None,
        directives: DirectivesOptions | None = None,
        language_policy: LanguagePolicyOptions | None = None,
        output_tags: OutputTagsOptions | None = None,
        token_estimation: TokenEstimationOptions | None = None,
        toggles: ToggleOptions | None = None,
    ) -> RunnerConfig:
        """Check a configuration and fill in its defaults.

        Args:
            provider: Who serves the model, such as ``openrouter``.
            model: The model's name there.
            context: The inputs that all requests share; its ``data`` may contain the sections below.
            pipeline: The steps of a build.
            step_options: Options of single steps, by their names.
            llm_options_defaults: Default options of every request, such as ``temperature``.
            capabilities_overrides: Capabilities of the model that the table does not have, such as
                ``context_window_tokens``.
            infrastructure: The registries of transforms, sanitizers and capabilities.
            presets: Which presets apply below the sections: those of the provider and the model (``all``),
                only the provider's (``provider``), or none.
            tool_calling: How tools are offered, run and guarded.
            directives: How structured answers are requested.
            language_policy: The language of the answer.
            output_tags: How tags in the answer are processed.
            token_estimation: How tokens are counted.
            toggles: Features that are off by default.

        Raises:
            ConfigError: An option is unknown or has a wrong value; the message says what to pass.
        """
        require("provider", provider, str)
        require("model", model, str)
        require("pipeline", pipeline, Pipeline)
        require("step_options", step_options, Mapping[str, Mapping[str, object]] | None)
        require("capabilities_overrides", capabilities_overrides, Mapping[str, object] | None)
        require("infrastructure", infrastructure, Infrastructure)
        require_choice("presets", presets, get_args(Presets))
        capabilities = infrastructure.capabilities.resolve(provider, model, capabilities_overrides)
        given = {
            "tool_calling": tool_calling,
            "directives": directives,
            "language_policy": language_policy,
            "output_tags": output_tags,
            "token_estimation": token_estimation,
            "toggles": toggles,
        }
        settled = _with_sections(_context(context), given)
        OptionReader(settled.get("token_estimation"), "token_estimation", TokenEstimationOptions)
        policy = LanguagePolicyConfig.from_mapping(settled.get("language_policy"))
        tool_options = section(settled.get("tool_calling"), "tool_calling")
        directive_options = section(settled.get("directives"), "directives")
        return cls(
            provider=capabilities.provider,
            model=capabilities.model,
            context=settled,
            pipeline=_configure(pipeline, policy, capabilities, normalize_step_configs(step_options or {})),
            llm_options_defaults=_options_defaults(llm_options_defaults),
            capabilities=capabilities,
            tool_calling=ToolCallingConfig.from_mapping(
                tool_config.merge(_tool_preset(presets, provider, model), tool_options)
            ),
            directives=DirectivesConfig.from_mapping(
                directives_config.merge(_directives_preset(presets, provider), directive_options)
            ),
            language_policy=policy,
            output_tags=OutputTagsConfig.from_mapping(settled.get("output_tags")),
            infrastructure=infrastructure,
        )


def _with_sections(context: VibeTavernContext, given: Mapping[str, object]) -> VibeTavernContext:
    """Merge sections over those of the context; report likely misspelt section names."""
    for key in context.data:
        near = "" if key in given else suggestion(key, given)
        if near:
            log_warning(f"context has a key {key!r}, which is not a section{near}")
    sections = {
        name: {**section(context.get(name), name), **section(options, name)}
        for name, options in given.items()
        if options is not None
    }
    return context.replace(data={**context.data, **sections}) if sections else context


def _tool_preset(presets: Presets, provider: str, model: str) -> dict[str, object]:
    if presets == "none":
        return {}
    if presets == "provider":
        return tool_config.merge(tool_config.default_tool_calling(), tool_config.provider_defaults(provider))
    return tool_config.preset_for(provider, model)


def _directives_preset(presets: Presets, provider: str) -> dict[str, object]:
    return {} if presets == "none" else directives_config.preset_for(provider)


def _context(value: Context | Mapping[str, object] | None) -> VibeTavernContext:
    if value is None:
        return VibeTavernContext()
    if isinstance(value, VibeTavernContext):
        return value
    if isinstance(value, Context):
        shared = {name: getattr(value, name) for name in Context.input_names() - {"type"}}
        return VibeTavernContext.make(**shared)
    if not is_mapping(value):
        raise ConfigError(f"context must be a Context or a mapping, not {type(value).__name__}", code="INVALID_CONTEXT")
    return VibeTavernContext.from_mapping(value)


def _options_defaults(value: Mapping[str, object] | None) -> FrozenObject:
    options = section(value, "llm_options_defaults")
    refuse_reserved(options, RESERVED_LLM_OPTIONS, "llm_options_defaults")
    return freeze_object(options)


def refuse_reserved(options: Mapping[str, object], reserved: frozenset[str], name: str) -> None:
    """Raise for keys that only the runners set."""
    found = sorted(reserved.intersection(options))
    if found:
        raise ConfigError(f"{name} cannot set {', '.join(found)}", code="RESERVED_LLM_OPTION")


def _configure(
    pipeline: Pipeline[VibeTavernState],
    language_policy: LanguagePolicyConfig,
    capabilities: Capabilities,
    step_options: Mapping[str, Mapping[str, object]],
) -> Pipeline[VibeTavernState]:
    options: dict[str, Mapping[str, object]] = {}
    if "language_policy" in pipeline:
        options["language_policy"] = {
            name: getattr(language_policy, name) for name in LanguagePolicyConfig.__dataclass_fields__
        }
    if "max_tokens" in pipeline and capabilities.context_window_tokens is not None:
        options["max_tokens"] = {
            "max_tokens": capabilities.context_window_tokens,
            "reserve_tokens": capabilities.reserved_response_tokens,
            "mode": "error",
        }
    for name, given in step_options.items():
        options[name] = deep_merge(options.get(name, {}), given)
    for name, settled in options.items():
        pipeline = pipeline.configure(name, **settled)
    return pipeline
