"""The one configuration object of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from tavernkit.arguments import check_fields, require, require_choice
from tavernkit.errors import ConfigError
from tavernkit.prompt.context import Context, normalize_step_configs
from tavernkit.prompt.pipeline import Pipeline
from tavernkit.values import FrozenObject, deep_merge, freeze_object, is_mapping
from tavernkit.vibe_tavern.capabilities import Capabilities
from tavernkit.vibe_tavern.context import VibeTavernContext, VibeTavernState
from tavernkit.vibe_tavern.directives import presets as directives_presets
from tavernkit.vibe_tavern.directives.config import DirectivesConfig
from tavernkit.vibe_tavern.infrastructure import SHARED, Infrastructure
from tavernkit.vibe_tavern.language_policy import LanguagePolicyConfig
from tavernkit.vibe_tavern.options import section
from tavernkit.vibe_tavern.output_tags.config import OutputTagsConfig
from tavernkit.vibe_tavern.pipeline import PIPELINE
from tavernkit.vibe_tavern.tool_calling import presets as tool_presets
from tavernkit.vibe_tavern.tool_calling.config import ToolCallingConfig

Presets = Literal["all", "provider", "none"]

RESERVED_LLM_OPTIONS: Final = frozenset(
    ("model", "messages", "tools", "tool_choice", "response_format", "stream", "stream_options")
)
"""Keys that only the runners set."""


@dataclass(frozen=True, kw_only=True)
class RunnerConfig:
    """Provider, model and everything about one request; made with :meth:`build`, then read-only.

    The context's sections are ``tool_calling``, ``directives``, ``language_policy``, ``output_tags``,
    ``token_estimation`` and ``toggles``. Presets of the provider and model hold below the sections.
    """

    provider: str
    model: str
    context: VibeTavernContext
    pipeline: Pipeline[VibeTavernState]
    llm_options_defaults: FrozenObject
    capabilities: Capabilities
    tool_calling: ToolCallingConfig
    directives: DirectivesConfig
    language_policy: LanguagePolicyConfig
    output_tags: OutputTagsConfig
    infrastructure: Infrastructure

    def __post_init__(self) -> None:
        check_fields(self)

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
    ) -> RunnerConfig:
        """Check and settle a configuration.

        ``presets`` says which ready-made options hold below the sections: those of the provider and the model
        (``all``), only the provider's (``provider``), or none.
        """
        require("pipeline", pipeline, Pipeline)
        require("step_options", step_options, Mapping[str, Mapping[str, object]] | None)
        require("capabilities_overrides", capabilities_overrides, Mapping[str, object] | None)
        require("infrastructure", infrastructure, Infrastructure)
        require_choice("presets", presets, get_args(Presets))
        capabilities = infrastructure.capabilities.resolve(provider, model, capabilities_overrides)
        settled = _context(context)
        language_policy = LanguagePolicyConfig.from_mapping(settled.get("language_policy"))
        tool_options = section(settled.get("tool_calling"), "tool_calling")
        directive_options = section(settled.get("directives"), "directives")
        return cls(
            provider=capabilities.provider,
            model=capabilities.model,
            context=settled,
            pipeline=_configured(pipeline, language_policy, capabilities, normalize_step_configs(step_options or {})),
            llm_options_defaults=_options_defaults(llm_options_defaults),
            capabilities=capabilities,
            tool_calling=ToolCallingConfig.from_mapping(
                tool_presets.merge(_tool_preset(presets, provider, model), tool_options)
            ),
            directives=DirectivesConfig.from_mapping(
                directives_presets.merge(_directives_preset(presets, provider), directive_options)
            ),
            language_policy=language_policy,
            output_tags=OutputTagsConfig.from_mapping(settled.get("output_tags")),
            infrastructure=infrastructure,
        )


def _tool_preset(presets: Presets, provider: str, model: str) -> dict[str, object]:
    if presets == "none":
        return {}
    if presets == "provider":
        return tool_presets.merge(tool_presets.default_tool_calling(), tool_presets.provider_defaults(provider))
    return tool_presets.preset_for(provider, model)


def _directives_preset(presets: Presets, provider: str) -> dict[str, object]:
    return {} if presets == "none" else directives_presets.preset_for(provider)


def _context(value: Context | Mapping[str, object] | None) -> VibeTavernContext:
    if value is None:
        return VibeTavernContext()
    if isinstance(value, VibeTavernContext):
        return value
    if isinstance(value, Context):
        shared = {each.name: getattr(value, each.name) for each in dataclasses.fields(Context) if each.name != "type"}
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


def _configured(
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
