"""Chats keep what the next build must know, and go on with the same beginning after they were loaded again."""

from __future__ import annotations

import json
from typing import Literal

import pytest

import tavernkit as tk
from benchmarks.bench_cache import chat
from tavernkit import silly_tavern as st
from tavernkit._turns import OnPiece, ToolOutcome
from tavernkit._values import is_mapping
from tavernkit.cache import CacheReport, PromptCache
from tavernkit.examples import example_path
from tavernkit.models import Reply, ToolCall
from tavernkit.prompt import Plan
from tavernkit.silly_tavern._caching.frozen_lore import METADATA_KEY
from tavernkit.testing import ScriptedModel

LINES = chat(20).messages


class Host:
    """Answers with the lines of a chat, and watches the prompt cache."""

    def __init__(self) -> None:
        self.cache = PromptCache("llama_cpp")
        self.asked = 0

    @property
    def report(self) -> CacheReport:
        return self.cache.report

    async def ask(self, plan: Plan, *, on_piece: OnPiece | None = None) -> Reply:
        del on_piece
        self.cache.send(plan)
        self.asked += 1
        return Reply(text=LINES[2 * self.asked].mes, finish_reason="stop")

    async def checkpoint(self) -> None:
        pass

    async def call_tool(self, call: ToolCall) -> ToolOutcome:
        raise NotImplementedError(call)


def opened(host: Host, file: st.ChatFile | None = None) -> st.Chat:
    made = st.Chat(
        host,
        chat=file,
        character=tk.load(example_path("aria.json")).character,
        preset=st.Preset.load(example_path("preset.json")).replace(openai_max_context=3000),
        books=[st.WorldBook.load(example_path("tidewatch.json"))],
        strategy="cache",
        lore="freeze",
        volatile="tail",
        warn=None,
        seed=1,
    )
    made.open()
    return made


async def test_a_chat_stores_the_cut_and_frozen_lore_and_is_loaded_with_the_same_beginning() -> None:
    host = Host()
    talk = opened(host)
    for turn in range(20):
        if turn == 16:
            talk = opened(host, st.ChatFile.loads(talk.file.dumps()))
        await talk.send(LINES[2 * turn + 1].mes)
    stored = talk.metadata[METADATA_KEY]
    assert is_mapping(stored)
    assert stored["cut"]
    assert stored["lore"]
    assert json.loads(json.dumps(talk.metadata)) == talk.metadata
    assert host.report.share > 0.6
    reloaded = host.report.turns[16]
    assert reloaded.broken is not None
    assert reloaded.broken.cause == "new message"


async def test_a_swipe_sees_the_same_prompt_but_for_what_stands_behind_the_chat() -> None:
    host = Host()
    talk = opened(host)
    await talk.send("The lamp?")
    first = talk.metadata[METADATA_KEY]
    await talk.swipe()
    assert talk.metadata[METADATA_KEY] == first
    assert host.report.turns[-1].share > 0.9


class Claude(ScriptedModel):
    """A model that is asked in Anthropic's protocol."""

    dialect = "anthropic"


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
async def test_a_conversation_that_keeps_anthropics_cache_sends_its_marks(
    platform: Literal["silly_tavern", "risu_ai"],
) -> None:
    model = Claude("One.", "Two.")
    card = tk.Character(name="Aria", description="She keeps the light. " * 300)
    inputs: st.SillyTavernInputs = {"strategy": "cache", "cache_profile": "anthropic"}
    talk = tk.Conversation.open(card=card, model=model, platform=platform, inputs=inputs)
    talk.cache = PromptCache("anthropic")
    for text in ("Hi.", "And?"):
        await talk.send(text)
    assert [1 <= json.dumps(body).count("cache_control") <= 4 for body in model.requests] == [True, True]
    assert talk.cache.report.turns[1].cached_tokens > 1024
