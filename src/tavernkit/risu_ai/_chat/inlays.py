"""Pictures, audio and videos in messages: removed from the text and attached."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit.dialects._attachments import Attachment
from tavernkit.errors import Warn
from tavernkit.risu_ai._cbs.delimited import replace_in_lines
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._objects import RisuCharacter

_INLAY = re.compile(r"\{\{(inlay|inlayed|inlayeddata)::(.+?)\}\}")
_ASSET_PROMPT = re.compile(r"\{\{(?:asset_prompt|assetprompt)::(.+?)\}\}")
ICON = "icon"

Caption: TypeAlias = Callable[[Attachment], str]
"""Describes a picture, for models that cannot see it."""


@dataclass(frozen=True, slots=True)
class Inlay:
    """A file that messages refer to by id; ``caption`` replaces a picture that the model cannot see."""

    attachment: Attachment
    """The file."""
    caption: str = ""


def take_inlays(text: str) -> tuple[str, list[tuple[str, ...]]]:
    """Separate a text from its inlays, each with the kind of its tag."""
    return _take(_INLAY, text)


def _take(pattern: re.Pattern[str], text: str) -> tuple[str, list[tuple[str, ...]]]:
    found: list[tuple[str, ...]] = []

    def take(match: re.Match[str]) -> str:
        found.append(match.groups())
        return ""

    return replace_in_lines(pattern, "}}", take, text), found


class Media:
    """Attaches the media of messages, for one character and model."""

    def __init__(
        self,
        inlays: Mapping[str, Inlay],
        character: RisuCharacter,
        *,
        sees_images: bool,
        warn: Warn,
        caption: Caption | None = None,
    ) -> None:
        self._inlays = inlays
        self._caption = caption
        self._character = character
        self._sees_images = sees_images
        self._warn = warn
        self._assets: dict[str, str] | None = None

    def take_inlays(self, message: PromptMessage) -> None:
        """Remove inlays from a text. Only ``inlayeddata`` is attached to a character's message, all to the user's."""
        if "{{inlay" not in message.content:
            return
        message.content, found = take_inlays(message.content)
        for kind, name in found:
            if message.role == "user" or kind == "inlayeddata":
                self._attach(message, name)

    def take_asset_prompts(self, message: PromptMessage) -> None:
        """Remove asset prompts from a text and attach the character's pictures."""
        if "{{asset" not in message.content:
            return
        message.content, found = _take(_ASSET_PROMPT, message.content)
        for (name,) in found:
            path = self._asset_path(name)
            if path is not None:
                self._attach(message, path)

    def _asset_path(self, name: str) -> str | None:
        if name == ICON:
            return self._character.image or None
        if self._assets is None:
            assets = (*(self._character.assets or ()), *(self._character.emotions or ()))
            self._assets = {asset.name: asset.path for asset in reversed(assets)}  # the first with a name counts
        return self._assets.get(name)

    def _attach(self, message: PromptMessage, name: str) -> None:
        inlay = self._inlays.get(name)
        if inlay is None:
            self._warn(f"a message names {name!r:.80}, which is not among the inlays; nothing is attached")
        elif inlay.attachment.kind == "image" and not self._sees_images:
            text = inlay.caption or (self._caption(inlay.attachment) if self._caption is not None else "")
            message.content += "[" + text + "]"
        else:
            message.multimodals += (inlay.attachment.to_dict(),)
