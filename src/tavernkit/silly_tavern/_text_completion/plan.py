"""The plan of a text build."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, ClassVar

from tavernkit._dataclass import dataclass
from tavernkit._values import EMPTY_OBJECT, FrozenObject, JsonObject, freeze_object, is_mapping, thaw_object
from tavernkit.prompt._plan import Plan, RenderedText
from tavernkit.silly_tavern._chat_completion.plan import ChatPlan
from tavernkit.silly_tavern._text_completion.segments import rendered

if TYPE_CHECKING:
    from tavernkit.errors import Warn
    from tavernkit.models._request import WireRequest
    from tavernkit.silly_tavern.providers._text.given import TextInput

LENGTHS = ("max_new_tokens", "max_tokens", "truncation_length")
"""Options of every text plan, for which backends have their own names."""
SETTINGS_OF = {"kobold": "kai_settings", "novelai": "nai_settings"}
"""Backends with separate settings, by their key in the settings file."""
MODEL_SETTINGS = {"ooba": "custom_model", "novelai": "model_novel"}
"""Settings with a model that are not named after the backend."""
EMPTY_TEXT = RenderedText("")


@dataclass(frozen=True)
class TextPlan(ChatPlan):
    """One prompt text, the blocks it is made of, and the strings at which the model stops.

    The joined contents of its enabled blocks are the text; ``rendered.spans`` says which characters came from which
    block. ``clean_up`` turns the model's raw reply into a message.
    """

    negative_prompt: str = ""
    """The negative prompt of classifier-free guidance; empty if there is none."""
    guidance_scale: float = 1
    """The scale of classifier-free guidance; 1 switches it off."""
    backend: str = "ooba"
    """The backend of the settings, by SillyTavern's name."""
    text_settings: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT, repr=False)
    """The sampler settings of text completion, by their keys in ``settings.json``."""
    text_input: TextInput | None = field(default=None, repr=False, compare=False)
    """What SillyTavern's page needs, besides those, for a request."""
    clean_up: Callable[[str], str] = field(default=str, repr=False, compare=False)

    _unpickled: ClassVar[Mapping[str, object]] = {
        "count_tokens": None,
        "again": None,
        "page": None,
        "text_input": None,
        "clean_up": str,
    }

    __repr__ = ChatPlan.__repr__

    @property
    def prompt(self) -> str:
        """The text that goes to the model."""
        return (self.rendered or EMPTY_TEXT).text

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """Strings at which the model stops."""
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
        """SHA-256 of what would be sent: equal plans have equal fingerprints, regardless of block ids."""
        return super().fingerprint(dialect, squash_system_messages=squash_system_messages, **dialect_options)

    def to_request(self) -> JsonObject:
        """Return the body that SillyTavern posts to its own backend: the prompt and all samplers."""
        from tavernkit.silly_tavern.providers import TextInput, text_page_body

        body = text_page_body(self.backend, self._samplers(self.backend), TextInput.from_plan(self))
        asked = {key: value for key, value in thaw_object(self.llm_options).items() if key not in LENGTHS}
        return {**body, **asked}

    def _reference_request(
        self, provider: str | None, *, model: str, api_key: str, base_url: str, warn: Warn
    ) -> WireRequest:
        from tavernkit.models._request import WireRequest
        from tavernkit.silly_tavern.providers import (
            Connection,
            TextInput,
            text_page_body,
            text_request,
            unsent_text_settings,
        )

        backend = provider or self.backend
        samplers = self._samplers(backend)
        if model:
            samplers[MODEL_SETTINGS.get(backend, f"{backend}_model")] = model
        given = replace(TextInput.from_plan(self, server=_server(backend, base_url, samplers)), warn=warn)
        body = text_page_body(backend, samplers, given)
        unsent = unsent_text_settings(backend, samplers, given)
        if unsent:
            warn(f"{backend} does not get {', '.join(unsent)}: left out of the request")
        made = text_request(backend, body, Connection(key=api_key))
        return WireRequest(method=made.method, url=made.url, headers=made.headers, body=freeze_object(made.body))

    def _samplers(self, backend: str) -> JsonObject:
        """Return the settings of a backend; Kobold and NovelAI have theirs in other places."""
        found = self.text_settings.get(SETTINGS_OF.get(backend, "textgenerationwebui_settings"))
        return thaw_object(found) if is_mapping(found) else {}


def _server(backend: str, base_url: str, samplers: JsonObject) -> str:
    known = samplers.get("server_urls")
    address = base_url or (known.get(backend) if is_mapping(known) else None)
    server = address if isinstance(address, str) else ""
    if backend == "kobold":
        # SillyTavern's page stores the address with this suffix.
        return server if server.rstrip("/").endswith("/api") else f"{server.rstrip('/')}/api"
    return server
