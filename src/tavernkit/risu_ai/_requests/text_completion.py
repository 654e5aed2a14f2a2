"""A prompt as one text in the format of a preset, for models without chat, and where to cut what they write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import to_string, trim
from tavernkit._text.traced import join
from tavernkit.errors import Warn, log_warning
from tavernkit.lore._key_index import KeyIndex
from tavernkit.risu_ai._chat.prompt_message import NEW_CHAT, PromptMessage

if TYPE_CHECKING:
    from tavernkit.risu_ai._files.preset import Preset

INLAY_IMAGE_MEMO = "inlayImage"
_SYSTEM_TAGS = ("system note:", "system:", "system note：", "system：")
_COLONS = (":", "：", ": ", "： ")
_PREFIX_ENDS = (">", " ", "\n")
_MANY_TAGS = 100
"""More tags are looked for together, which takes longer to prepare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OobaFormat:
    """How Text Generation WebUI's prompts are written (RisuAI's ``ooba.formating``)."""

    header: str = ""
    system_prefix: str = ""
    user_prefix: str = ""
    assistant_prefix: str = ""
    separator: str = ""
    use_name: bool = False

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> OobaFormat:
        """Read the format as RisuAI stores it (``seperator`` is its spelling)."""
        return cls(
            header=to_string(data.get("header") or ""),
            system_prefix=to_string(data.get("systemPrefix") or ""),
            user_prefix=to_string(data.get("userPrefix") or ""),
            assistant_prefix=to_string(data.get("assistantPrefix") or ""),
            separator=to_string(data.get("seperator") or ""),
            use_name=bool(data.get("useName")),
        )

    def to_json(self) -> dict[str, str | bool]:
        """Write the format with RisuAI's keys."""
        return {
            "header": self.header,
            "systemPrefix": self.system_prefix,
            "userPrefix": self.user_prefix,
            "assistantPrefix": self.assistant_prefix,
            "seperator": self.separator,
            "useName": self.use_name,
        }

    def prefix(self, role: str | None) -> str:
        """The prefix of messages of a role, with the space or line end it needs."""
        prefixes = {"user": self.user_prefix, "assistant": self.assistant_prefix, "system": self.system_prefix}
        prefix = prefixes.get(role or "", "")
        if not prefix or prefix.endswith(_PREFIX_ENDS):
            return prefix
        return prefix + ("\n" if "\n\n" in self.separator else " ")


def chat_text(messages: Sequence[PromptMessage], character_name: str, *, continued: bool = False) -> str:
    """Write a script: ``system: …``, ``name: …``, and the character's name at the end (RisuAI: stringlizeChat)."""
    parts = [_line(message) for message in messages if not (message.memo or "").startswith(INLAY_IMAGE_MEMO)]
    text = join("\n\n", parts)
    return text if continued else join("", (text, "\n\n", character_name, ":"))


def _line(message: PromptMessage) -> str:
    if message.role == "system":
        return "system: " + message.content
    return join("", (message.name, ": ", message.content)) if message.name else message.content


def ooba_text(
    messages: Sequence[PromptMessage],
    character_name: str,
    *,
    user_name: str,
    format: OobaFormat,  # noqa: A002 - the word users know
    suggesting: bool = False,
    continued: bool = False,
) -> str:
    """Write the prompt with prefixes (RisuAI: stringlizeChatOba); with ``suggesting`` the model speaks for the user."""
    swapped = {"user": "assistant", "assistant": "user"} if suggesting else {}
    names = {"user": user_name, "assistant": character_name}
    parts = [format.header] if format.header else []
    for message in messages:
        if message.role == "system" and message.content == NEW_CHAT:
            parts.append("<START>")  # RisuAI's start line; any other message with that text counts as well
            continue
        name = (message.name or names.get(message.role or "")) if format.use_name else None
        speech = join("", (name, ": ", message.content)) if name else message.content
        parts.append(format.prefix(swapped.get(message.role or "", message.role)) + speech)
    if not continued:
        # Unlike before messages, there is no space between this prefix and the name.
        parts.append(format.assistant_prefix + (character_name + ":" if format.use_name else ""))
    return trim(join(format.separator, parts))


@dataclass(frozen=True, slots=True)
class StopTexts:
    """Where a model begins to speak for another speaker: ``tags`` end in a colon, ``all`` has the bare names too."""

    tags: tuple[str, ...]
    all: tuple[str, ...]


def stop_texts(messages: Sequence[PromptMessage], character_name: str, *, user_name: str) -> StopTexts:
    """List the texts a reply is cut at (RisuAI: getUnstringlizerChunks)."""
    named = (message.name for message in messages if message.name)
    names = tuple(dict.fromkeys(name for name in (character_name, user_name, *named) if name))
    tags = (*_SYSTEM_TAGS, *(name + colon for name in names for colon in _COLONS))
    return StopTexts(tags, (*names, *tags))


def cut_reply(reply: str, messages: Sequence[PromptMessage], character_name: str, *, user_name: str) -> str:
    """Cut a reply where another speaker begins (RisuAI: unstringlizeChat); an uncut one stays untrimmed."""
    tags = stop_texts(messages, character_name, user_name=user_name).tags
    if len(tags) > _MANY_TAGS:
        places = [*KeyIndex(tags).find(reply).values()]
    else:
        places = [at for tag in tags if (at := reply.find(tag)) >= 0]
    return trim(reply[: min(places)]) if places else reply


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
        from tavernkit.risu_ai._chat_templates.template import apply_named_template

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
