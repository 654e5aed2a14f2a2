"""Classifier-free guidance: a second prompt that the reply is led away from."""

from __future__ import annotations

from dataclasses import dataclass

from tavernkit.silly_tavern.files.chat_file import ChatMetadata
from tavernkit.silly_tavern.files.json_reader import as_number

DEFAULT_DEPTH = 1


@dataclass(frozen=True, slots=True)
class Guidance:
    """The guidance of a chat. With a scale of 1 it is not in use."""

    scale: float = 1
    positive: str = ""
    negative: str = ""
    depth: int = DEFAULT_DEPTH

    @classmethod
    def of(cls, metadata: ChatMetadata) -> Guidance:
        """Read the chat's own guidance."""
        scale, depth = (
            as_number(metadata.get("cfg_guidance_scale")),
            as_number(metadata.get("cfg_prompt_insertion_depth")),
        )
        positive, negative = metadata.get("cfg_positive_prompt"), metadata.get("cfg_negative_prompt")
        return cls(
            scale=1 if scale is None else scale,
            positive=positive if isinstance(positive, str) else "",
            negative=negative if isinstance(negative, str) else "",
            depth=DEFAULT_DEPTH if depth is None else int(depth),
        )

    @property
    def in_use(self) -> bool:
        """Whether a second prompt is sent."""
        return self.scale != 1
