"""The system prompt of text completion, and the instructions after the chat."""

from __future__ import annotations

from typing import ClassVar

from tavernkit._dataclass import dataclass
from tavernkit.silly_tavern._files.template_file import TemplateFile


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPrompt(TemplateFile):
    """``content`` goes to the start of the prompt, ``post_history`` after the chat; a card may replace either."""

    kind: ClassVar[str] = "system prompt"

    enabled: bool = True
    """False if text completion does not use it."""
    content: str = ""
    post_history: str = ""
