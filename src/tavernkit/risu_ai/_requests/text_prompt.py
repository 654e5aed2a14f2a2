"""Which of RisuAI's text formats a preset asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit.errors import Warn, log_warning
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._files.preset import Preset
from tavernkit.risu_ai._requests.text_completion import OobaFormat, chat_text, ooba_text


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRules:
    """How a prompt becomes one text: a chat template, prefixes, or a plain script."""

    character_name: str = ""
    user_name: str = ""
    template: str = ""
    jinja: str = ""
    ooba: OobaFormat = field(default_factory=OobaFormat)
    continued: bool = False

    @classmethod
    def of(cls, preset: Preset, *, character_name: str, user_name: str, continued: bool) -> TextRules:
        """The rules of a preset."""
        return cls(
            character_name=character_name,
            user_name=user_name,
            template=preset.instruct_chat_template if preset.use_instruct_prompt else "",
            jinja=preset.jinja_template,
            ooba=preset.ooba_format,
            continued=continued,
        )


def write_text(messages: Sequence[PromptMessage], rules: TextRules, *, warn: Warn = log_warning) -> str:
    """Write a prompt as one text."""
    if rules.template:
        from tavernkit.risu_ai._chat_templates import apply_named_template

        return apply_named_template(
            rules.template,
            messages,
            jinja=rules.jinja,
            character_name=rules.character_name,
            user_name=rules.user_name,
            warn=warn,
        )
    if rules.ooba != OobaFormat():
        return ooba_text(
            messages,
            rules.character_name,
            user_name=rules.user_name,
            format=rules.ooba,
            continued=rules.continued,
        )
    return chat_text(messages, rules.character_name, continued=rules.continued)
