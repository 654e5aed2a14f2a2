"""Predictions agree with caches that see only what goes over the wire."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

import tavernkit as tk
from benchmarks.bench_cache import Scene, report_of, scenes
from tavernkit.cache import PromptCache, ReplayedTurn, plan_spans, predict, with_breakpoints
from tavernkit.models import Reply
from tavernkit.testing import HttpReply, HttpRequest, LoopbackServer
from tests.cache.provider_caches import MarkCache, SlotCache, UnitCache, tokens_of

CLOSE = 0.02
TURNS = 16


@pytest.fixture(scope="module", params=[False, True], ids=["reference", "keep"])
def turns(request: pytest.FixtureRequest) -> Sequence[ReplayedTurn]:
    scene: Scene = scenes(TURNS)[1]
    return scene.turns(4096, keep=bool(request.param))


def bodies(turns: Sequence[ReplayedTurn]) -> list[tk.Request]:
    return [turn.plan.request("openai", model="local") for turn in turns]


def test_units_of_tokens(turns: Sequence[ReplayedTurn]) -> None:
    cache = UnitCache()
    sent = [tokens_of(request.body()) for request in bodies(turns)]
    share = sum(cache.send(ids) for ids in sent) / sum(map(len, sent))
    assert report_of(turns, "openai").share == pytest.approx(share, abs=CLOSE)


def test_marks(turns: Sequence[ReplayedTurn]) -> None:
    cache, cached, total = MarkCache(), 0, 0
    marked = [with_breakpoints(turn.plan, "anthropic") for turn in turns]
    for plan in marked:
        cached += cache.send(plan.request("anthropic", model="claude", options={"max_tokens": 9}).body())
        total += cache.total
    assert predict([plan_spans(plan) for plan in marked], "anthropic").share == pytest.approx(cached / total, abs=CLOSE)


@pytest.mark.parametrize("reported_by", ["usage", "timings"])
async def test_a_server_with_llama_cpps_rules(turns: Sequence[ReplayedTurn], reported_by: str) -> None:
    slot = SlotCache()

    async def answer(request: HttpRequest) -> HttpReply:
        ids = tokens_of(json.loads(request.body))
        cached = slot.send(ids)
        usage: dict[str, object] = {"prompt_tokens": len(ids), "completion_tokens": 1}
        body: dict[str, object] = {
            "choices": [{"message": {"role": "assistant", "content": "Hm."}, "finish_reason": "stop"}],
            "usage": usage,
        }
        if reported_by == "usage":
            usage["prompt_tokens_details"] = {"cached_tokens": cached}
        else:
            body["timings"] = {"cache_n": cached}
        return HttpReply(body=json.dumps(body).encode())

    replies: list[Reply] = []
    predicted = PromptCache("llama_cpp")
    async with LoopbackServer(answer).running() as server:
        model = tk.model("openai:local", base_url=f"{server.url}/v1", api_key="none")
        for turn, request in zip(turns, bodies(turns), strict=True):
            predicted.send(turn.spans)
            replies.append(await model.send(request))
            predicted.receive(replies[-1].usage)
        await model.aclose()
    share = sum(reply.usage.cached_tokens for reply in replies) / sum(reply.usage.input_tokens for reply in replies)
    assert share > 0.01
    assert predicted.report.share == pytest.approx(share, abs=CLOSE)
    assert predicted.report.reported_share == pytest.approx(share, abs=CLOSE)


def test_openrouter_gets_marks_in_message_parts(turns: Sequence[ReplayedTurn]) -> None:
    body = with_breakpoints(turns[-1].plan, "openrouter").request("openai", model="anthropic/claude").body()
    messages = body["messages"]
    assert isinstance(messages, list)
    marks = [message for message in messages if isinstance(message, dict) and isinstance(message["content"], list)]
    assert 1 <= len(marks) <= 4
    for message in marks:
        content = message["content"]
        assert isinstance(content, list)
        assert isinstance(content[-1], dict)
        assert content[-1]["cache_control"] == {"type": "ephemeral"}
