"""The plan of a text build, and the pieces of its text, which know where they came from."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, ClassVar

from tavernkit._dataclass import dataclass
from tavernkit._text.traced import join, substitute
from tavernkit._values import EMPTY_OBJECT, FrozenObject, JsonObject, freeze_object, is_mapping, thaw_object
from tavernkit.prompt._block import Block
from tavernkit.prompt._plan import Plan, RenderedText, TextSpan
from tavernkit.silly_tavern._chat_completion.plan import ChatPlan

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


_NEWLINES = re.compile(r"\n+")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a piece came from, and what its block will be."""

    id: str
    role: str
    source: FrozenObject
    slot: str
    group: str = "system"
    depth: int | None = None


@dataclass(slots=True)
class Segment:
    """A piece of text."""

    text: str
    origin: Origin
    block: Block | None = field(default=None, repr=False, compare=False)
    """Its cached block, which is kept from turn to turn."""


def text_of(segments: Iterable[Segment]) -> str:
    """Return the segments as one text."""
    return join("", [segment.text for segment in segments])


def normalised(segments: Iterable[Segment], *, collapse_newlines: bool) -> list[Segment]:
    """Remove carriage returns and, if configured, collapse newlines, also across segments."""
    plain = [each if "\r" not in each.text else Segment(each.text.replace("\r", ""), each.origin) for each in segments]
    if not collapse_newlines:
        return [segment for segment in plain if segment.text]
    found: list[Segment] = []
    ends_line = False
    for segment in plain:
        text = substitute(_NEWLINES, "\n", segment.text)
        if ends_line:
            text = text.removeprefix("\n")
        if text:
            ends_line = text.endswith("\n")
            found.append(segment if text == segment.text else Segment(text, segment.origin))
    return found


def blocks_of(segments: Sequence[Segment]) -> list[Block]:
    """Return one block per run of segments with the same origin; their joined contents are the text."""
    runs: list[list[Segment]] = []
    for segment in segments:
        if runs and runs[-1][0].origin is segment.origin:
            runs[-1].append(segment)
        else:
            runs.append([segment])
    seen: Counter[str] = Counter()
    blocks: list[Block] = []
    for run in runs:
        first = run[0]
        origin = first.origin
        seen[origin.id] += 1
        block_id = origin.id if seen[origin.id] == 1 else f"{origin.id}#{seen[origin.id]}"
        if len(run) > 1:
            block = _block(origin, text_of(run), block_id)
        elif first.block is None or first.block.id != block_id:
            first.block = block = _block(origin, first.text, block_id)
        else:
            block = first.block
        blocks.append(block)
    return blocks


def rendered(blocks: Iterable[Block], stop_strings: Sequence[str]) -> RenderedText:
    """Return the text of the enabled blocks, with the characters of each."""
    spans: list[TextSpan] = []
    texts: list[str] = []
    position = 0
    for block in blocks:
        if block.enabled:
            texts.append(block.content)
            spans.append(TextSpan(start=position, end=position + len(block.content), block_id=block.id))
            position += len(block.content)
    return RenderedText(join("", texts), tuple(spans), tuple(stop_strings))


def _block(origin: Origin, text: str, block_id: str) -> Block:
    return Block(
        role=origin.role,
        content=text,
        id=block_id,
        slot=origin.slot,
        removable=origin.group != "system",
        # Blocks keep their place: a text has no depths.
        depth=origin.depth or 0,
        token_budget_group=origin.group,
        metadata={"source": origin.source, "identifier": origin.id},
    )
