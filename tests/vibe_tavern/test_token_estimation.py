"""Which tokenizer counts which model, and where its file comes from."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from datetime import UTC, datetime
from http.client import HTTPMessage
from io import BytesIO
from pathlib import Path

import pytest

from tavernkit.testing import HttpReply, HttpRequest, LoopbackServer
from tavernkit.vibe_tavern import _token_estimation as token_estimation
from tavernkit.vibe_tavern._token_estimation import audit_models, canonical_model_hint
from tavernkit.vibe_tavern._tokenizer_files import (
    CarefulRedirects,
    Fetched,
    check_tokenizers,
    fetch_from_hub,
    fetch_tokenizers,
)

TOKENIZER = {
    "version": "1.0",
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "hello": 1, "world": 2}, "unk_token": "[UNK]"},
}


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        (" OpenAI/GPT-5.2:nitro ", "GPT-5.2"),
        ("deepseek/deepseek-v3.2:nitro", "deepseek-v3.2"),
        ("deepseek/deepseek-chat-v3-0324", "deepseek-v3"),
        ("x/DeepSeek-V3-0324", "deepseek-v3"),
        ("deepseek/deepseek-r1", "deepseek-v3.2"),
        ("qwen/qwen3-next-80b-a3b-instruct", "qwen3-next-80b-a3b-instruct"),
        ("qwen/qwen3-235b-a22b-2507", "qwen3-235b-a22b-instruct-2507"),
        ("qwen/qwen3-30b-a3b-instruct-2507", "qwen3-30b-a3b-instruct"),
        ("qwen/qwen3-8b", "qwen3"),
        ("z-ai/glm-4.7-flash", "glm-4.7-flash"),
        ("z-ai/glm-4.7", "glm-4.7"),
        ("moonshotai/kimi-k2.5", "kimi-k2.5"),
        ("minimax/minimax-m2-her", "minimax-m2.1"),
        ("anthropic/claude-opus-4.6:beta", "anthropic/claude-opus-4.6"),
    ],
)
def test_model_ids_name_their_tokenizer(model: str, hint: str) -> None:
    assert canonical_model_hint(model) == hint


def test_without_files_models_are_counted_by_their_family(tmp_path: Path) -> None:
    assert set(token_estimation.registry(tmp_path)) == {"kimi-k2.5"}
    counting = token_estimation.estimator(tmp_path)
    assert counting.estimate("hello world", "deepseek-v3.2") > 0
    assert token_estimation.estimator(tmp_path) is counting


def test_files_are_fetched_checked_and_used(tmp_path: Path) -> None:
    asked: list[str] = []

    def fetch(url: str, headers: object) -> Fetched:
        asked.append(url)
        if "GLM" in url:
            raise OSError("no such file")
        return Fetched(b"not json" if "MiniMax" in url else json.dumps(TOKENIZER).encode(), "etag", "commit")

    results = fetch_tokenizers(
        root=tmp_path,
        only=["deepseek-v3", "glm-4.7", "minimax-m2.1", "kimi-k2.5"],
        fetch=fetch,
        now=lambda: datetime(2026, 1, 2, tzinfo=UTC),
    )
    assert {result.hint: result.status for result in results} == {
        "deepseek-v3": "fetched",
        "glm-4.7": "failed",
        "minimax-m2.1": "failed",
        "kimi-k2.5": "no_file",
    }
    source = json.loads((tmp_path / "deepseek-v3" / "source.json").read_text())
    assert source["hf_repo"] == "deepseek-ai/DeepSeek-V3-0324"
    assert source["date"] == "2026-01-02T00:00:00+00:00"
    assert [result.status for result in fetch_tokenizers(root=tmp_path, only=["deepseek-v3"], fetch=fetch)] == ["ok"]
    assert len(asked) == 3
    assert token_estimation.estimator(tmp_path).estimate("hello brave world", "deepseek-v3") == 3
    models = ["deepseek/deepseek-chat-v3-0324", "z-ai/glm-4.7", "x/y"]
    found = {each.model: each.status for each in audit_models(models, tokenizer_root=tmp_path)}
    assert found == {"deepseek/deepseek-chat-v3-0324": "hit", "z-ai/glm-4.7": "missing_file", "x/y": "miss"}


def test_a_broken_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "glm-4.7" / "tokenizer.json"
    path.parent.mkdir()
    path.write_text("{}")
    statuses = {result.hint: result.status for result in check_tokenizers(root=tmp_path, only=["glm-4.7", "qwen3"])}
    assert statuses == {"glm-4.7": "invalid", "qwen3": "missing"}


def test_a_file_that_replaces_a_broken_one_is_used_at_once(tmp_path: Path) -> None:
    path = tmp_path / "glm-4.7" / "tokenizer.json"
    path.parent.mkdir()
    path.write_text("{}")
    before = token_estimation.estimator(tmp_path).estimate("hello brave world" * 9, "glm-4.7")
    content = json.dumps(TOKENIZER).encode()
    results = fetch_tokenizers(root=tmp_path, only=["glm-4.7", "qwen3"], fetch=lambda url, headers: Fetched(content))
    assert [result.status for result in results] == ["fetched", "fetched"]
    assert token_estimation.estimator(tmp_path).estimate("hello brave world" * 9, "glm-4.7") == 19 != before
    assert token_estimation.audit_models(["qwen/qwen3-8b"], tokenizer_root=tmp_path)[0].status == "hit"


def test_root_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TAVERNKIT_TOKENIZER_ROOT", str(tmp_path))
    assert token_estimation.default_tokenizer_root() == tmp_path
    monkeypatch.delenv("TAVERNKIT_TOKENIZER_ROOT")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert token_estimation.default_tokenizer_root() == tmp_path / "tavernkit" / "tokenizers"


async def test_the_users_token_stays_with_the_server_that_it_is_for() -> None:
    async def store(request: HttpRequest) -> HttpReply:
        return HttpReply(body=b"{}", headers={"etag": request.headers.get("authorization", "no token")})

    async with LoopbackServer(store).running() as elsewhere:

        async def hub(request: HttpRequest) -> HttpReply:
            if request.path == "/file":
                return HttpReply(302, headers={"location": f"{hub_server.url}/same-server"})
            if request.path == "/same-server" and request.headers.get("authorization") == "Bearer secret":
                return HttpReply(302, headers={"location": f"{elsewhere.url}/stored"})
            return HttpReply(404)

        async with LoopbackServer(hub).running() as hub_server:
            file = await asyncio.to_thread(fetch_from_hub, f"{hub_server.url}/file", {"Authorization": "Bearer secret"})
    assert (file.content, file.etag) == (b"{}", "no token")


def test_redirects_stay_on_https() -> None:
    request = urllib.request.Request("https://hub.example/file")  # nothing is sent
    with pytest.raises(urllib.error.URLError, match="redirects to http"):
        CarefulRedirects().redirect_request(request, BytesIO(), 302, "", HTTPMessage(), "http://hub.example/file")
