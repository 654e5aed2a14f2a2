"""The plan of a RisuAI build: the list as RisuAI builds it, and the request it would send."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, cast

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values.numbers import as_float
from tavernkit._text.traced import Origin, trace
from tavernkit._values import EMPTY_OBJECT, FrozenJson, FrozenObject, JsonObject, LRUCache, freeze_object, is_sequence
from tavernkit.budget._limits import LONG_TEXT_CHARACTERS
from tavernkit.errors import Warn, log_warning
from tavernkit.prompt._block import Block, Message, with_field
from tavernkit.prompt._plan import Plan
from tavernkit.risu_ai._budget import encoder
from tavernkit.risu_ai._cbs.blocks import unescape
from tavernkit.risu_ai._chat.prompt_message import PromptMessage, explained, source_of, title_of
from tavernkit.risu_ai._files.preset import UNSET_SAMPLER, Preset
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat
from tavernkit.risu_ai._requests.messages import (
    TOOL_CALL,
    RequestRules,
    ToolCalls,
    request_messages,
    tool_messages,
    unescaped,
    without_tool_calls,
)
from tavernkit.risu_ai._requests.parameters import HELPER_MODE, MAIN_MODE
from tavernkit.risu_ai._requests.reference import EMPTY_KEYS, KEY_NAMES, RisuRequest, reference_request
from tavernkit.risu_ai._requests.text_completion import TextRules, cut_reply, stop_texts, write_text

if TYPE_CHECKING:
    from tavernkit.models._request import WireRequest
    from tavernkit.prompt._source_mapping import Again, TracedBuild


def llm_options(preset: Preset, input_tokens: int) -> dict[str, object]:
    """Return the model, the size of the reply (at most the rest of the context) and the samplers that are set."""
    size = max(min(preset.max_response, preset.max_context - input_tokens), 0)
    fields: dict[str, object] = {"model": preset.ai_model, "max_tokens": size}
    samplers = (
        ("temperature", preset.temperature, 100),
        ("top_p", preset.top_p, 1),
        ("frequency_penalty", preset.frequency_penalty, 100),
        ("presence_penalty", preset.presence_penalty, 100),
    )
    for name, value, divisor in samplers:
        number = as_float(value)
        if math.isfinite(number) and value != UNSET_SAMPLER:  # JSON has no other numbers
            fields[name] = number / divisor
    return fields


@dataclass(frozen=True)
class RisuPlan(Plan):
    """What RisuAI would send, block by block.

    ``chat`` is the chat as stored now (with ids, expanded texts and changes by triggers), ``last_memory`` the
    id of its first message that is in the prompt. ``character`` is the selected character, with what triggers changed.
    ``memory_data`` is the memory's data to store on the chat. ``stopped`` is True if a trigger cancelled the send.
    """

    chat: RisuChat = field(default_factory=RisuChat)
    character: RisuCharacter | None = None
    last_memory: str | None = None
    stopped: bool = False
    rules: RequestRules = field(default_factory=RequestRules)
    """How the request is written for the model."""
    text_rules: TextRules = field(default_factory=TextRules)
    """How the messages become one text, for text-completion models."""
    memory_data: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    purpose: str = MAIN_MODE
    """What the prompt is for: ``model``, or a helper request such as ``memory`` or ``emotion``."""
    is_helper: bool = False
    """True for a request outside the chat, whose reply is not a message: by a trigger, memory and so on."""

    __repr__ = Plan.__repr__

    def asked_as(
        self, messages: Sequence[PromptMessage], rules: RequestRules, own: Sequence[PromptMessage]
    ) -> RisuPlan:
        """Return the plan of an actual request: with the messages after request triggers, for a fallback model.

        Args:
            messages: The messages that are sent.
            rules: The rules of the model that is asked.
            own: The messages of this plan from which the sent ones were made.
        """
        if rules.model == self.rules.model and (messages is own or list(messages) == list(own)):  # the same objects
            return self
        blocks = make_blocks(messages, [self._count(message) for message in messages])
        options = {**self.llm_options, "model": rules.model}
        return dataclasses.replace(self, blocks=blocks, rules=rules, llm_options=options)

    def _count(self, message: PromptMessage) -> int:
        return 0 if self.count_tokens is None else self.count_tokens(message.content)

    def _prepared(self, *, squash: bool) -> list[Message]:
        messages = super()._prepared(squash=squash)
        return [said for message in messages for said in self._with_tools(message)]

    def _with_tools(self, message: Message) -> list[Message]:
        """Return a message with its tool calls."""
        content = unescape(message.content)
        if TOOL_CALL not in content:
            return [message] if content == message.content else [message.replace(content=content)]
        found = [
            Message(str(each.pop("role")), str(each.pop("content")), metadata=each)
            for each in tool_messages(content, self.rules.tool_calls)
        ]
        left = without_tool_calls(content)
        return [*found, message.replace(role="assistant", content=left)] if left.strip() or not found else found

    def with_tool_calls(self, text: str, calls: ToolCalls) -> RisuPlan:
        """Return the plan of the next request after tool calls.

        Args:
            text: What the model said so far, with the marks of its calls.
            calls: The calls of the marks.
        """
        source = source_of("chat", "tool calls", "the model called tools before it answered")
        rules = dataclasses.replace(self.rules, tool_calls={**self.rules.tool_calls, **calls})
        block = Block(role="assistant", content=text, id="tool calls", metadata={"source": source})
        again = None if self.again is None else _again_with(block, rules, self.again)
        return dataclasses.replace(self, blocks=(*self.blocks, block), rules=rules, again=again)

    def prompt_messages(self) -> list[PromptMessage]:
        """Return the messages with all of RisuAI's data, as built; a message shown twice is one object."""
        found: list[PromptMessage] = []
        shown: dict[str, PromptMessage] = {}
        for block in self.enabled_blocks:
            first = shown.get(str(block.metadata.get(SHOWN_BEFORE)))
            again = first is not None and (first.role or "", first.content) == (block.role, block.content)
            message = first if again and first is not None else prompt_message(block)
            shown[block.id] = message
            found.append(message)
        return found

    def posted_messages(self, *, warn: Warn = log_warning) -> list[JsonObject]:
        """Return the messages as RisuAI would post them in OpenAI's format."""
        return request_messages(unescaped(self.prompt_messages()), self.rules, warn=warn)

    def reference_request(
        self,
        *,
        keys: Mapping[str, str] = EMPTY_KEYS,
        stream: bool = False,
        warn: Warn = log_warning,
        strict: bool = False,
    ) -> RisuRequest:
        """Return the request that RisuAI would post for the preset's model: address, headers and body.

        Args:
            keys: API keys by provider, such as ``openai`` or ``anthropic``; without one RisuAI writes ``undefined``.
            stream: True to request a stream.
            warn: Called with warnings about differences from RisuAI's request.
            strict: Raise if RisuAI itself would throw.
        """
        # RisuAI requests a whole reply even if it does not fit the context.
        return reference_request(
            unescaped(self.prompt_messages()),
            self.rules,
            max_tokens=self.rules.preset.max_response,
            text=self.to_text(warn=warn) if self.text_rules.template else None,
            keys=keys,
            stream=stream,
            mode=self.purpose,
            encode=encoder(self.rules.model),
            warn=warn,
            strict=strict,
        )

    def _reference_request(
        self, provider: str | None, *, model: str, api_key: str, base_url: str, warn: Warn
    ) -> WireRequest:
        from tavernkit.models._request import WireRequest

        for name, value in (("model", model), ("base_url", base_url)):
            if value:
                warn(f"{name} is left out: RisuAI's preset says which model is asked, and where")
        # The preset decides the provider, so the key is that provider's.
        keys = dict.fromkeys((*KEY_NAMES, *((provider,) if provider else ())), api_key) if api_key else EMPTY_KEYS
        made = self.reference_request(keys=keys, warn=warn)
        return WireRequest(method="POST", url=made.url, headers=made.headers, body=freeze_object(made.body))

    def to_request(self, *, warn: Warn = log_warning) -> JsonObject:
        """Return the body that RisuAI would post to the preset's model, in that provider's own format."""
        return self.reference_request(warn=warn).body

    def to_text(self, *, warn: Warn = log_warning) -> str:
        """Return the prompt as one text, for text-completion models: with the preset's chat template or prefixes."""
        return write_text(unescaped(self.prompt_messages()), self.text_rules, warn=warn)

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """Return the strings with which a reply would begin to speak for another participant."""
        rules = self.text_rules
        return stop_texts(self.prompt_messages(), rules.character_name, user_name=rules.user_name).tags

    def cut_reply(self, reply: str) -> str:
        """Cut a reply there, as RisuAI does."""
        rules = self.text_rules
        return cut_reply(reply, self.prompt_messages(), rules.character_name, user_name=rules.user_name)


def helper_plan(messages: Sequence[PromptMessage], rules: RequestRules, purpose: str = HELPER_MODE) -> RisuPlan:
    """Return the plan of a request outside the chat: a summary, a question of a trigger.

    Args:
        messages: The messages.
        rules: The model, and the settings of its requests.
        purpose: The purpose of the request, in RisuAI's words.
    """
    preset = rules.preset
    options = {**llm_options(preset, 0), "model": rules.model, "max_tokens": preset.max_response}
    blocks = make_blocks(messages, [0] * len(messages))
    rules = dataclasses.replace(rules, bias=())  # RisuAI sends weights of tokens only with the chat
    return RisuPlan(blocks=blocks, llm_options=freeze_object(options), rules=rules, purpose=purpose, is_helper=True)


BlockCache = LRUCache[object, tuple[FrozenObject, Block]]
"""Cached blocks of chat messages by their content, each with its source."""


def make_blocks(
    messages: Sequence[PromptMessage], tokens: Sequence[int], cache: BlockCache | None = None
) -> list[Block]:
    """Make the blocks of messages, in order; a message that is shown twice gives two blocks.

    Args:
        messages: The messages of a prompt.
        tokens: What each of them costs.
        cache: Blocks of earlier turns.
    """
    seen: dict[str, int] = {}
    shown: dict[int, tuple[int, str]] = {}
    blocks: list[Block] = []
    for message, count in zip(messages, tokens, strict=True):
        label = message.memo or str(message.source.get("kind", "message"))
        seen[label] = number = seen.get(label, 0) + 1
        name = label if number == 1 else f"{label}#{number}"
        time, first = shown.get(id(message), (0, None))
        shown[id(message)] = time + 1, first or name
        place = message.printed[time] if time < len(message.printed) else ""
        blocks.append(_known_block(message, name, place, count, first, cache))
    return blocks


def _known_block(
    message: PromptMessage,
    block_id: str,
    place: str,
    tokens: int,
    shown_before: str | None,
    cache: BlockCache | None,
) -> Block:
    """Return the block of an earlier turn if it is the same; only messages of the chat are reused."""
    content, source = message.content, message.source
    if cache is None or type(content) is not str or len(content) > LONG_TEXT_CHARACTERS or message.merged:
        return _block(message, block_id, place, tokens, shown_before)
    if message.multimodals or source.get("stage") != "chat":
        return _block(message, block_id, place, tokens, shown_before)
    key = (
        block_id,
        place,
        tokens,
        shown_before,
        message.role,
        content,
        message.name,
        message.memo,
        message.removable,
        message.attr,
        message.thoughts,
        message.cache_point,
    )
    known = cache.get(key)
    if known is None or known[0] is not source:
        known = (source, _block(message, block_id, place, tokens, shown_before))
        cache.put(key, known)
    return known[1]


SHOWN_BEFORE = "shown_before"
"""In a block's metadata: the id of the block that shows the same message before it."""


LISTED_PARTS = 6
"""How many parts of a joined message are named in its source."""

_GROUPS = {"chat": "history", "lore": "lore"}


def _block(message: PromptMessage, block_id: str, place: str, tokens: int, shown_before: str | None) -> Block:
    source = explained(message.source, place, place=place) if place else message.source
    stage, kind = message.source.get("stage"), message.source.get("kind")
    group = "examples" if kind == "example" else _GROUPS.get(str(stage), "system")
    metadata: dict[str, FrozenJson] = {"source": _joined(source, message.merged), "tokens": tokens}
    secondary: tuple[tuple[str, FrozenJson], ...] = (
        ("memo", message.memo),
        ("removable", message.removable),
        ("attr", message.attr),
        ("thoughts", message.thoughts),
        ("cache_point", message.cache_point),
        ("parts", (source, *message.merged) if message.merged else ()),
        (SHOWN_BEFORE, shown_before),
    )
    metadata.update((key, value) for key, value in secondary if value)
    return Block(
        role=message.role or "",
        content=message.content,
        id=block_id,
        name=message.name,
        attachments=message.multimodals or None,
        slot=str(kind) if kind is not None else None,
        removable=group != "system",
        token_budget_group=group,
        metadata=metadata,
    )


def _joined(first: FrozenObject, others: Sequence[FrozenObject]) -> FrozenObject:
    """Return one source for joined system messages; their own sources are in the block's ``parts``."""
    if not others:
        return first
    parts = (first, *others)
    labels = list(dict.fromkeys(title_of(part) for part in parts))
    reasons = list(dict.fromkeys(str(part.get("reason") or "") for part in parts))
    more = f" + {len(labels) - LISTED_PARTS} more" if len(labels) > LISTED_PARTS else ""
    others_too = f" | {len(reasons) - LISTED_PARTS} more" if len(reasons) > LISTED_PARTS else ""
    return {
        "stage": first.get("stage"),
        "kind": " + ".join(labels[:LISTED_PARTS]) + more,
        "reason": f"joined for this model: {' | '.join(reasons[:LISTED_PARTS])}{others_too}",
    }


def prompt_message(block: Block) -> PromptMessage:
    """Return the message of a block."""
    metadata = block.metadata
    memo, attr, thoughts = metadata.get("memo"), metadata.get("attr"), metadata.get("thoughts")
    return PromptMessage(
        role=block.role or None,
        content=block.content,
        name=block.name,
        memo=memo if isinstance(memo, str) else None,
        removable=bool(metadata.get("removable")),
        attr=tuple(map(str, attr)) if is_sequence(attr) else (),
        multimodals=tuple(block.attachments or ()),
        thoughts=tuple(map(str, thoughts)) if is_sequence(thoughts) else (),
        cache_point=bool(metadata.get("cache_point")),
        source=cast("FrozenObject", metadata.get("source") or EMPTY_OBJECT),
    )


def _again_with(block: Block, rules: RequestRules, again: Again) -> Again:
    """Return a function that builds a plan again, to which a block was added that the build does not know.

    Args:
        block: The block.
        rules: The rules of the plan, which write that block.
        again: Builds the plan without the block.
    """

    def built(plan: Plan) -> TracedBuild:
        others = [each for each in plan.blocks if each is not block]
        found = again(plan.with_blocks(others))
        if len(others) == len(plan.blocks):
            return found
        at = next(index for index, each in enumerate(plan.blocks) if each is block)
        text = trace(block.content, Origin("block", block.id, "", block.content))
        if found.contents is not None:
            contents = (*found.contents[:at], text, *found.contents[at:])
            return dataclasses.replace(found, contents=contents)
        blocks = (*found.plan.blocks[:at], with_field(block, "content", text), *found.plan.blocks[at:])
        return dataclasses.replace(found, plan=found.plan.replace(blocks=blocks, rules=rules))

    return built
