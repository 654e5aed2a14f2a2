"""The plan of a text build."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from tavernkit.prompt.plan import Plan, RenderedText
from tavernkit.silly_tavern.chat_completion.plan import ChatPlan
from tavernkit.silly_tavern.text_completion.segments import rendered
from tavernkit.values import EMPTY_OBJECT, FrozenObject, JsonObject, freeze_object, thaw_object

if TYPE_CHECKING:
    from tavernkit.models.request import WireRequest

EMPTY_TEXT = RenderedText("")


@dataclass(frozen=True)
class TextPlan(ChatPlan):
    """One prompt text, the blocks it is made of, and where the model shall stop.

    The contents of its enabled blocks put together are the text; ``rendered.spans`` says which characters came from
    which block. ``clean_up`` makes a message of the model's raw reply.
    """

    negative_prompt: str = ""
    guidance_scale: float = 1
    text_settings: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT, repr=False)
    """The sampler settings of text completion, as ``settings.json`` has them."""
    clean_up: Callable[[str], str] = field(default=str, repr=False, compare=False)

    _unpickled: ClassVar[Mapping[str, object]] = {"count_tokens": None, "again": None, "page": None, "clean_up": str}

    @property
    def prompt(self) -> str:
        """The text that goes to the model."""
        return (self.rendered or EMPTY_TEXT).text

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """Where the model shall stop."""
        return tuple((self.rendered or EMPTY_TEXT).stop_sequences)

    def replace(self, **changes: object) -> Plan:
        """Return a changed copy; other blocks make another text."""
        changed = dataclasses.replace(self, **changes)  # pyright: ignore[reportArgumentType]  # checked in __post_init__
        if "blocks" not in changes or "rendered" in changes:
            return changed
        return dataclasses.replace(changed, rendered=rendered(changed.blocks, self.stop_strings))

    def fingerprint(
        self, dialect: str = "text", *, squash_system_messages: bool = False, **dialect_options: object
    ) -> str:
        """SHA-256 of what would be sent: equal plans have equal fingerprints, whatever their block ids."""
        return super().fingerprint(dialect, squash_system_messages=squash_system_messages, **dialect_options)

    def _reference_request(self, provider: str, api_key: str) -> WireRequest:
        from tavernkit.models.request import WireRequest
        from tavernkit.silly_tavern.providers import Connection, TextInput, text_page_body, text_request

        body = text_page_body(provider, thaw_object(self.text_settings), TextInput.from_plan(self))
        made = text_request(provider, body, Connection(key=api_key))
        return WireRequest(method=made.method, url=made.url, headers=made.headers, body=freeze_object(made.body))

    def to_request(self) -> JsonObject:
        """The fields of SillyTavern's request that come from the prompt."""
        stops = list(self.stop_strings)
        return {
            "prompt": self.prompt,
            "stop": [*stops],
            "stopping_strings": [*stops],
            "negative_prompt": self.negative_prompt,
            "guidance_scale": self.guidance_scale,
            **thaw_object(self.llm_options),
        }
