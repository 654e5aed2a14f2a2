"""How a model's reasoning is marked, and how much of it is sent again."""

from __future__ import annotations

from typing import ClassVar

from tavernkit._dataclass import dataclass
from tavernkit.silly_tavern._files.template_file import TemplateFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningSettings(TemplateFile):
    """A reasoning template (``name``, ``prefix``, ``suffix``, ``separator``) and the settings around it."""

    kind: ClassVar[str] = "reasoning template"

    prefix: str = "<think>"
    suffix: str = "</think>"
    separator: str = "\n"
    auto_parse: bool = False
    """Move a marked block at the start of a reply to the reasoning field."""
    add_to_prompts: bool = False
    """Send the reasoning of earlier replies with the chat."""
    max_additions: int = 1
    """How many of the newest replies are sent with their reasoning."""
