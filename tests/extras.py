"""One short check for each extra, which uses what the extra is for. `python extras.py NAME` needs only the wheel."""

from __future__ import annotations

import asyncio
import io
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tavernkit as tk
from tavernkit.examples import example_path


def models() -> None:
    from tavernkit.testing import ScriptedModel, serve_in_thread

    async def reply(url: str) -> str:
        async with tk.model("openai:any", base_url=url, api_key="none", environment={}) as model:
            return (await model.send(tk.Request(messages=[tk.Message("user", "Hi")]))).text

    with serve_in_thread(ScriptedModel("Hello.")) as url:
        assert asyncio.run(reply(url)) == "Hello."


def mcp() -> None:
    from mcp.server import mcpserver

    from tavernkit.vibe_tavern import connect_mcp

    server = mcpserver.MCPServer("tavern")

    @server.tool()
    def roll(sides: int) -> int:
        """Roll a die."""
        return sides

    async def names() -> list[str]:
        async with connect_mcp(server) as tools:
            return [each.name for each in tools.definitions]

    assert roll(6) == 6
    assert asyncio.run(names()) == ["roll"]


def lua() -> None:
    from tavernkit import risu_ai

    code = "function onStart(id) setChatVar(id, 'mood', 'calm') end"
    effect = {"type": "triggerlua", "code": code}
    start = {"comment": "", "type": "start", "conditions": [], "effect": [effect]}
    data = {"name": "Aria", "chaId": "1", "firstMessage": "Hello.", "triggerscript": [start]}
    character = risu_ai.RisuCharacter.from_json(data)
    plan = risu_ai.build(character=character, message="Hi")
    assert "calm" in str(plan.variables), plan.warnings


def liquid() -> None:
    from tavernkit.vibe_tavern import render_liquid

    assert render_liquid("Hello {{ user | upcase }}.", assigns={"user": "Ann"}) == "Hello ANN."


def hf() -> None:
    import tokenizers

    from tavernkit.budget import TokenEstimator

    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"hi": 0, "you": 1}, unk_token="hi"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()  # pyright: ignore[reportAttributeAccessIssue]  # no types
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tokenizer.json")
        made.save(str(path))
        entry = {"tokenizer_family": "hf_tokenizers", "tokenizer_path": str(path)}
        assert TokenEstimator(registry={"mine": entry}).estimate("hi you hi", "mine") == 3


def images() -> None:
    from PIL import Image

    from tavernkit.cards import Asset, Bundle, save

    drawn = io.BytesIO()
    Image.new("RGB", (32, 16)).save(drawn, "WEBP")
    picture = Asset.from_bytes(drawn.getvalue(), type="icon", name="main")
    written = io.BytesIO()
    save(Bundle(card=tk.Character(name="Aria"), image=picture), written, format="png")
    assert Image.open(io.BytesIO(written.getvalue())).size == (32, 16)


def sentencepiece() -> None:
    import sentencepiece as package  # pyright: ignore[reportMissingImports]  # not installed for development

    from tavernkit import silly_tavern

    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "text.txt")
        text.write_text("the lamp burns in the tower by the sea\n" * 20, encoding="utf-8")
        trained = f"{folder}/jamba"
        package.SentencePieceTrainer.train(
            input=str(text), model_prefix=trained, vocab_size=30, hard_vocab_limit=False, minloglevel=2
        )
        preset = silly_tavern.Preset.from_json({"chat_completion_source": "ai21", "ai21_model": "jamba-large"})
        plan = silly_tavern.build(
            character=tk.Character(name="Aria"), message="Hi", preset=preset, tokenizers=folder, strict=True
        )
    assert plan.counting_note == "", plan.counting_note


def fastembed() -> None:
    import fastembed as package  # pyright: ignore[reportMissingImports]  # not installed for development

    # Making vectors would download a model; that the default one is known has to do.
    assert any(each["model"] == "BAAI/bge-small-en-v1.5" for each in package.TextEmbedding.list_supported_models())


def numpy() -> None:
    import numpy as package

    from tavernkit.embeddings import IndexItem, VectorIndex

    assert package.__version__
    index = VectorIndex()
    index.add("lore", [IndexItem("sea", "a"), IndexItem("sky", "b")], [[1.0, 0.0], [0.0, 1.0]])
    assert [match.text for match in index.search(["lore"], [0.9, 0.1], top_k=1)] == ["sea"]
    index.close()


def otel() -> None:
    from tavernkit.testing import ScriptedModel
    from tavernkit.vibe_tavern import OpenTelemetryInstrumenter

    telemetry = OpenTelemetryInstrumenter()
    with telemetry.run("story"):
        reply = asyncio.run(
            telemetry.model(ScriptedModel("Hello.")).send(tk.Request(messages=[tk.Message("user", "Hi")]))
        )
    assert reply.text == "Hello."


def server() -> None:
    import httpx

    from tavernkit.server import ServerConfig, create_app

    async def status() -> int:
        with tempfile.TemporaryDirectory() as folder:
            app = create_app(ServerConfig.model_validate({"data": folder}))
            transport = httpx.ASGITransport(app=app)
            async with (
                app.router.lifespan_context(app),
                httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
            ):
                return (await client.get("/health")).status_code

    assert asyncio.run(status()) == 200


def parquet() -> None:
    _batch(format="parquet")


def ray() -> None:
    _batch(ray="local")


def _batch(**options: Any) -> None:
    grid = tk.Grid({"cards": [str(example_path("aria.json"))], "messages": ["Who are you?"]})
    with tempfile.TemporaryDirectory() as folder:
        result = tk.batch(grid, folder, **options)
    assert (result.status, result.records) == ("complete", 1), result


def everything() -> None:
    for check in (models, mcp, lua, liquid, hf, images, otel, server):
        check()


CHECKS: Mapping[str, Callable[[], None]] = {
    "models": models,
    "mcp": mcp,
    "lua": lua,
    "liquid": liquid,
    "hf": hf,
    "images": images,
    "sentencepiece": sentencepiece,
    "fastembed": fastembed,
    "numpy": numpy,
    "otel": otel,
    "server": server,
    "parquet": parquet,
    "ray": ray,
    "all": everything,
}

if __name__ == "__main__":
    CHECKS[sys.argv[1]]()
    print(json.dumps(sys.argv[1]), "works")
