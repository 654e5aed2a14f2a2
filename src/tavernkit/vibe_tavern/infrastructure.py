"""The registries that runs look things up in: one set for everybody, or one's own."""

from __future__ import annotations

from dataclasses import dataclass, field

from tavernkit.arguments import check_fields
from tavernkit.vibe_tavern.capabilities import CapabilitiesRegistry, default_registry
from tavernkit.vibe_tavern.output_tags.sanitizers import SanitizerRegistry, default_sanitizers
from tavernkit.vibe_tavern.tool_calling.transforms import (
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
    """Registries of a program. The default is shared by the whole process; :meth:`copy` gives a set of one's own."""

    capabilities: CapabilitiesRegistry = field(default_factory=lambda: default_registry)
    sanitizers: SanitizerRegistry = field(default_factory=lambda: default_sanitizers)
    message_transforms: TransformRegistry[MessageTransform] = field(default_factory=lambda: message_transforms)
    tool_transforms: TransformRegistry[ToolTransform] = field(default_factory=lambda: tool_transforms)
    response_transforms: TransformRegistry[ResponseTransform] = field(default_factory=lambda: response_transforms)
    tool_call_transforms: TransformRegistry[ToolCallTransform] = field(default_factory=lambda: tool_call_transforms)
    tool_result_transforms: TransformRegistry[ToolResultTransform] = field(
        default_factory=lambda: tool_result_transforms
    )

    def __post_init__(self) -> None:
        check_fields(self)

    def copy(self) -> Infrastructure:
        """Registries that can be added to without anybody else seeing it."""
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
"""The registries that are used unless a configuration brings its own."""
