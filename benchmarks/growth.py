"""What costs grow with: ``make bench-growth`` measures every operation at three sizes and prints a table.

``python -m benchmarks.growth [--json] [WORDS]`` measures those whose names have all the words; a number chooses one.
Processor time, the least of several runs; the exponent is that of the size between the last two: 0 is no growth, 1 is
growth in proportion.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import math
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tavernkit as tk
from benchmarks import bench_risu_build, bench_risu_lore, bench_st_build, bench_st_text, workloads
from benchmarks.bench_st_macros import environment
from benchmarks.bench_world_info import SETTINGS, estimate, workload
from benchmarks.performance_page.formats import growth_row, table
from tavernkit import risu_ai, silly_tavern
from tavernkit.budget import get_tokenizer
from tavernkit.risu_ai._cbs import CBSEngine
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._chat.chat_log import with_messages
from tavernkit.risu_ai._lorebook import LorebookEngine
from tavernkit.server.storage.lines import insert_lines, new_line
from tavernkit.silly_tavern._macros import MacroEngine
from tavernkit.silly_tavern._world_info import ScanInput, SelectedBooks, WorldInfoEngine, WorldInfoSettings

ROUNDS = 5
LARGE = (10_000, 40_000, 100_000)
MESSAGES = (50, 500, 5_000)


@dataclass(frozen=True)
class Operation:
    """Something that is done, what its cost may grow with, and how it is done at a size."""

    name: str
    size_of: str
    sizes: tuple[int, int, int]
    make: Callable[[int], Callable[[], object]]
    """Prepares a size; what it returns does the work once."""


def scan(entries: int) -> Callable[[], object]:
    engine, given = WorldInfoEngine(), workload(entries)
    engine.compile(given.books, given.settings)
    return lambda: engine.scan(given)


def scan_keys(keys: int) -> Callable[[], object]:
    given = workload(1_000)
    made = workloads.lore(1_000)["book"]
    for number, entry in enumerate(made["entries"].values()):
        entry["key"] += [f"Quor{number} {extra}" for extra in range(keys // 1_000 - len(entry["key"]))]
    books = SelectedBooks(global_=(silly_tavern.WorldBook("keys", made),))
    engine, longer = WorldInfoEngine(), dataclasses.replace(given, books=books)
    engine.compile(books, given.settings)
    return lambda: engine.scan(longer)


def scan_of_risu_ai(count: int) -> Callable[[], object]:
    found, given = bench_risu_lore.entries(count)
    engine = LorebookEngine()
    given = dataclasses.replace(given, entries=engine.compile(found))
    return lambda: engine.scan(given)


def scan_messages(messages: int) -> Callable[[], object]:
    engine, given = WorldInfoEngine(), workload(1_000)
    longer = ScanInput(
        messages=(list(given.messages) * math.ceil(messages / len(given.messages)))[:messages],
        books=given.books,
        settings=WorldInfoSettings(depth=messages),
        max_context=given.max_context,
        count_tokens=estimate,
    )
    engine.compile(given.books, longer.settings)
    return lambda: engine.scan(longer)


def first_use(entries: int, *, index: bool = False) -> Callable[[], object]:
    made = workloads.lore(entries)
    path = Path(tempfile.mkdtemp()) / "book.json"
    path.write_text(json.dumps(made["book"]), encoding="utf-8")
    messages = [f"{line['name']}: {line['mes']}" for line in reversed(made["chat"])]
    if index:
        silly_tavern.WorldBook.load(path).index()

    def use() -> object:
        books = SelectedBooks(global_=(silly_tavern.WorldBook.load(path),))
        given = ScanInput(messages=messages, books=books, settings=SETTINGS, max_context=16000, count_tokens=estimate)
        return books, WorldInfoEngine().scan(given)

    return use


def chat_lines(count: int) -> list[silly_tavern.ChatMessage]:
    rng = random.Random(5)
    texts = (" ".join(rng.choice(workloads.WORDS) for _ in range(50)) + "." for _ in range(count))
    return [
        silly_tavern.ChatMessage(name="Lyra" if number % 2 else "Mira", mes=text, is_user=number % 2 == 0)
        for number, text in enumerate(texts)
    ]


def next_turn(lines: int, **more: Any) -> Callable[[], object]:
    builder = silly_tavern.Builder(**{**bench_st_build.inputs(), **more})
    history = chat_lines(lines)
    builder.build(history=history, message="Good evening.")

    def turn() -> object:
        history.append(silly_tavern.ChatMessage(name="Lyra", mes=f"The lantern {len(history)} is lit."))
        return builder.build(history=history, message="And then?")

    return turn


def next_turn_of_text(lines: int) -> Callable[[], object]:
    own = {name: value for name, value in bench_st_text.inputs().items() if name != "history"}
    return next_turn(lines, **own)


def next_turn_of_scripts(lines: int) -> Callable[[], object]:
    return next_turn(lines, regex_scripts=silly_tavern.RegexScripts.from_settings({"regex": bench_st_build.SCRIPTS}))


def next_turn_with_prompts(prompts: int) -> Callable[[], object]:
    names = [f"extra{number}" for number in range(prompts)]
    written = [
        {"identifier": name, "name": name, "role": "system", "content": "{{char}} and {{user}}: " + "word " * 40}
        for name in names
    ]
    default = silly_tavern.Preset.default()
    order = [{"identifier": each.identifier, "enabled": each.enabled} for each in default.effective_order]
    preset = silly_tavern.Preset.from_json(
        {
            "openai_model": "gpt-4",
            "openai_max_context": 200_000,
            "prompts": [prompt.to_json() for prompt in default.prompts] + written,
            "prompt_order": [
                {"character_id": 100001, "order": order + [{"identifier": name, "enabled": True} for name in names]}
            ],
        }
    )
    return next_turn(50, preset=preset)


def next_turn_with_scripts(scripts: int) -> Callable[[], object]:
    made = [
        {"scriptName": str(n), "findRegex": f"/<s{n}>(.*?)<.s{n}>/g", "replaceString": "$1", "placement": [1, 2]}
        for n in range(scripts)
    ]
    return next_turn(300, regex_scripts=silly_tavern.RegexScripts.from_settings({"regex": made}))


def next_turn_with_tokens(tokens: int) -> Callable[[], object]:
    preset = {**bench_st_build.inputs()["preset"].to_json(), "openai_max_context": tokens}
    return next_turn(tokens // 50, preset=silly_tavern.Preset.from_json(preset))


def next_turn_of_risu_ai(lines: int, **more: Any) -> Callable[[], object]:
    builder = risu_ai.Builder(**{**bench_risu_build.inputs(), **more})
    stored = [risu_ai.RisuMessage(role="user" if line.is_user else "char", data=line.mes) for line in chat_lines(lines)]
    chat = with_messages(bench_risu_build.inputs()["history"], stored)
    chat = builder.build(history=chat, message="Good evening.").chat

    def turn() -> object:
        nonlocal chat
        reply = risu_ai.RisuMessage(role="char", data=f"The sea answers {len(chat.messages)}.")
        plan = builder.build(history=with_messages(chat, (*chat.messages, reply)), message="Go on.")
        chat = plan.chat
        return plan

    return turn


def next_turn_of_risu_ai_with_scripts(scripts: int) -> Callable[[], object]:
    made = [
        {"comment": str(n), "in": f"<s{n}>(.*?)</s{n}>", "out": "$1", "type": "editprocess", "ableFlag": False}
        for n in range(scripts)
    ]
    modules = [risu_ai.RisuModule.from_json({"id": "m", "name": "M", "regex": made})]
    return next_turn_of_risu_ai(300, modules=modules)


def next_turn_of_risu_ai_with_tokens(tokens: int) -> Callable[[], object]:
    preset = dataclasses.replace(bench_risu_build.inputs()["preset"], max_context=tokens)
    return next_turn_of_risu_ai(tokens // 50, preset=preset)


def conversation(lines: int) -> Callable[[], object]:
    given = {name: value for name, value in bench_st_build.inputs().items() if name not in ("history", "seed")}
    model = tk.model("scripted", replies=["The lamp lit itself."] * (ROUNDS + 2))
    path = Path(tempfile.mkdtemp()) / "chat.jsonl"
    header = {"user_name": "Mira", "character_name": "Lyra", "chat_metadata": {}}
    path.write_text(
        "\n".join(json.dumps(each) for each in (header, *(line.to_json() for line in chat_lines(lines)))) + "\n",
        encoding="utf-8",
    )
    chat = tk.Conversation.open(
        path,
        card=given["character"],
        books=given["books"],
        preset=given["preset"],
        user="Mira",
        model=model,
    )

    async def send() -> object:
        return await chat.send("Who lit it?")

    asyncio.run(send())
    return lambda: asyncio.run(send())


def conversation_of_risu_ai(lines: int) -> Callable[[], object]:
    given = bench_risu_build.inputs()
    stored = [
        risu_ai.RisuMessage(role="user" if line.is_user else "char", data=line.mes, raw={"chatId": f"m{number}"})
        for number, line in enumerate(chat_lines(lines))
    ]
    chat = risu_ai.Chat(
        **{name: value for name, value in given.items() if name not in ("history", "seed")},
        history=with_messages(given["history"], stored),
    )
    model = tk.model("scripted", replies=["The lamp lit itself."] * (ROUNDS + 2))
    path = Path(tempfile.mkdtemp()) / "chat.json"
    talk = tk.Conversation(chat, model=model, store=tk.conversation.FileStore(path))

    async def send() -> object:
        return await talk.send("Who lit it?")

    asyncio.run(send())
    return lambda: asyncio.run(send())


class ServiceTurn:
    """A turn of the service, in this process and over ASGI, with SQLite and a scripted model."""

    def __init__(self, lines: int, platform: str) -> None:
        self._runner = asyncio.Runner()
        self._open = contextlib.AsyncExitStack()
        self._runner.run(self._start(lines, platform))

    async def _start(self, lines: int, platform: str) -> None:
        import httpx

        from tavernkit.server import ServerConfig, create_app
        from tavernkit.server.adapters.risu_ai_lines import user_line
        from tavernkit.server.storage import chats

        model = tk.model("scripted", replies=["The lamp lit itself."] * (ROUNDS + 4))
        config = ServerConfig.model_validate({"data": tempfile.mkdtemp()})
        app = create_app(config, upstream_models={"scripted": model})
        await self._open.enter_async_context(app.router.lifespan_context(app))
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1")
        self._client = await self._open.enter_async_context(client)
        body = {"model": "aria", "greeting": 0, "tavernkit": {"platform": platform}}
        made = (await self._client.post("/api/sessions", json=body)).json()["id"]
        stored = [
            user_line(line.mes, user_name="User")
            if platform == "risu_ai"
            else new_line("user", line.mes, line.to_json())
            for line in chat_lines(lines)
        ]
        async with app.state.service.database.write() as connection:
            chat = await chats.get_chat(connection, made)
            first = chat.next_position
            placed = [dataclasses.replace(line, position=first + number) for number, line in enumerate(stored)]
            for start in range(0, lines, 500):
                await insert_lines(connection, made, placed[start : start + 500], now=time.time())
            await chats.update_chat(connection, chat, next_position=first + lines)
        self._path = f"/api/sessions/{made}/messages"
        await self._turn()

    async def _turn(self) -> object:
        answer = await self._client.post(self._path, json={"content": "Who lit it?"})
        return answer.raise_for_status().json()

    def __call__(self) -> object:
        """Do a turn."""
        return self._runner.run(self._turn())

    def close(self) -> None:
        """Stop the service."""
        self._runner.run(self._open.aclose())
        self._runner.close()


def read_chat(lines: int) -> Callable[[], object]:
    path = Path(tempfile.mkdtemp()) / "chat.jsonl"
    path.write_text("\n".join(json.dumps(line.to_json()) for line in chat_lines(lines)), encoding="utf-8")
    return lambda: silly_tavern.ChatFile.load(path)


def macros(count: int) -> Callable[[], object]:
    engine, where = MacroEngine(), environment()
    text = "They said {{char}} saw {{user}}. " * count
    engine.expand(text, where)
    return lambda: engine.expand(text, where)


def macros_first(count: int) -> Callable[[], object]:
    where, text = environment(), "They said {{char}} saw {{user}}. " * count
    return lambda: MacroEngine().expand(text, where)


def cbs(rows: int, *, fresh: bool = False) -> Callable[[], object]:
    engine, where = CBSEngine(), CBSContext(char="Bel", user="Ann")
    where.variables.set("hp", "20")
    text = "{{#when::{{getvar::hp}}::>::3}}HP {{? {{getvar::hp}} * 2}}{{:else}}down{{/when}}\n" * rows
    engine.expand(text, where)
    return lambda: (CBSEngine() if fresh else engine).expand(text, where)


def count_tokens(words: int) -> Callable[[], object]:
    rng, tokenizer = random.Random(3), get_tokenizer("cl100k_base")
    text = " ".join(rng.choice(workloads.WORDS) for _ in range(words))
    return lambda: tokenizer.count(text)


OPERATIONS = (
    Operation("World Info: scan 100 messages", "entries of the book", (400, 4_000, 40_000), scan),
    Operation("World Info: scan 1,000 entries", "keys of the book", (3_000, 30_000, 300_000), scan_keys),
    Operation("World Info: scan 1,000 entries", "messages within the depth", (10, 100, 1_000), scan_messages),
    Operation("World Info: first use of a book, from its file", "entries of the book", LARGE, first_use),
    Operation(
        "World Info: first use, with an index",
        "entries of the book",
        LARGE,
        lambda entries: first_use(entries, index=True),
    ),
    Operation("SillyTavern: next turn, 16k context", "messages of the chat", (50, 500, 5_000), next_turn),
    Operation("SillyTavern: next turn of text completion", "messages of the chat", MESSAGES, next_turn_of_text),
    Operation("SillyTavern: next turn, twenty regex scripts", "messages of the chat", MESSAGES, next_turn_of_scripts),
    Operation("SillyTavern: next turn of 50 messages", "prompts", (10, 100, 1_000), next_turn_with_prompts),
    Operation("SillyTavern: next turn of 300 messages", "regex scripts", (1, 10, 100), next_turn_with_scripts),
    Operation(
        "SillyTavern: next turn, chat fills the context", "tokens", (4_000, 16_000, 64_000), next_turn_with_tokens
    ),
    Operation("RisuAI: scan 100 messages", "entries of the lorebook", (400, 4_000, 40_000), scan_of_risu_ai),
    Operation("RisuAI: next turn, 16k context", "messages of the chat", MESSAGES, next_turn_of_risu_ai),
    Operation("RisuAI: next turn of 300 messages", "regex scripts", (1, 10, 100), next_turn_of_risu_ai_with_scripts),
    Operation(
        "RisuAI: next turn, chat fills the context", "tokens", (4_000, 16_000, 64_000), next_turn_of_risu_ai_with_tokens
    ),
    Operation("Conversation: send, chat in a file", "messages of the chat", (50, 500, 5_000), conversation),
    Operation(
        "Conversation of RisuAI: send, chat in a file",
        "messages of the chat",
        (50, 500, 5_000),
        conversation_of_risu_ai,
    ),
    Operation("Service: a turn", "messages of the chat", MESSAGES, lambda lines: ServiceTurn(lines, "silly_tavern")),
    Operation(
        "Service: a turn of RisuAI", "messages of the chat", MESSAGES, lambda lines: ServiceTurn(lines, "risu_ai")
    ),
    Operation("read a chat file", "messages", (50, 500, 5_000), read_chat),
    Operation("macros: a text again", "macros", (20, 200, 2_000), macros),
    Operation("macros: a new text", "macros", (20, 200, 2_000), macros_first),
    Operation("CBS: a text again", "rows of a panel", (4, 40, 400), cbs),
    Operation("CBS: a new text", "rows of a panel", (4, 40, 400), lambda rows: cbs(rows, fresh=True)),
    Operation("count tokens of a new text", "words", (100, 1_000, 10_000), count_tokens),
)


def least(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the least processor time of some runs, in seconds."""
    times: list[float] = []
    for _ in range(rounds):
        start = time.process_time()
        result = work()
        times.append(time.process_time() - start)
        del result  # freeing it is no part of the work
    return min(times)


def measured(operation: Operation, size: int) -> float:
    """Return what an operation takes at a size, in seconds."""
    work = operation.make(size)
    try:
        return least(work)
    finally:
        if isinstance(work, ServiceTurn):
            work.close()


def figures(operation: Operation) -> dict[str, Any]:
    """Measure an operation at its sizes."""
    return {
        "name": operation.name,
        "size_of": operation.size_of,
        "sizes": operation.sizes,
        "processor_ms": [1000 * measured(operation, size) for size in operation.sizes],
    }


def rows(operations: tuple[Operation, ...] = OPERATIONS) -> Iterator[str]:
    """Measure, and give the lines of a table."""
    *head, _ = table("operation | grows with | >sizes | >ms | >exponent", [[""] * 5]).splitlines()
    yield from head
    for operation in operations:
        yield f"| {' | '.join(growth_row(figures(operation)))} |"


def main() -> None:
    """Print the table; words on the command line choose operations."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="what the name must contain, or the number of an operation")
    parser.add_argument("--json", action="store_true", help="print one JSON list instead of a table")
    given = parser.parse_args()
    chosen = tuple(
        each
        for place, each in enumerate(OPERATIONS)
        if all(int(word) == place if word.isdigit() else word.lower() in each.name.lower() for word in given.words)
    )
    if given.json:
        print(json.dumps([figures(operation) for operation in chosen]))
        return
    for row in rows(chosen):
        print(row, flush=True)


if __name__ == "__main__":
    main()
