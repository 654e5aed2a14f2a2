"""``python -m benchmarks.against_sillytavern files FOLDER``, then ``… run --url … --webdriver …``."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import bench_st_build, workloads
from benchmarks.against_sillytavern.webdriver import ENTER, Browser, WebDriverError
from tavernkit.silly_tavern import Builder, ChatMessage

TURNS = 10
WAIT_SECONDS = 120.0
POLL_SECONDS = 0.05
REPLY = "The lantern is lit."

STEPS = """\
1. In SillyTavern import {folder}/card.json as a character and {folder}/world.json under World Info, where you switch it
   on for all chats; open the character, import {folder}/chat.jsonl as its chat.
2. Choose Chat Completion with any source that is connected (a custom address that answers is enough), import
   {folder}/preset.json as the preset.
3. Start a WebDriver (chromedriver or geckodriver) and run
   python -m benchmarks.against_sillytavern run --url http://127.0.0.1:8000 --webdriver http://127.0.0.1:9515
   A window opens: choose the character and its chat there, then press Enter here."""

INSTALL = """\
// tavernkit: install
const seen = window.__tavernkit = {started: 0, times: [], sizes: []};
const reply = arguments[0], fetched = window.fetch;
window.addEventListener('keydown', event => { if (event.key === 'Enter') seen.started = performance.now(); }, true);
window.fetch = function (resource, options) {
  const address = String(resource && resource.url || resource);
  if (!address.includes('/api/backends/chat-completions/generate')) return fetched.apply(this, arguments);
  seen.times.push(performance.now() - seen.started);
  let messages = [];
  try { messages = JSON.parse(options.body).messages || []; } catch (error) { /* counted as none */ }
  seen.sizes.push(messages.length);
  const body = JSON.stringify({choices: [{message: {role: 'assistant', content: reply}, finish_reason: 'stop'}]});
  return Promise.resolve(new Response(body, {status: 200, headers: {'Content-Type': 'application/json'}}));
};
"""

INPUT = """\
// tavernkit: input
const boxes = [...document.querySelectorAll('textarea')].filter(box => box.offsetParent && !box.disabled);
boxes.sort((one, other) => other.getBoundingClientRect().bottom - one.getBoundingClientRect().bottom);
return boxes[0] || null;
"""
"""The box that messages are written in: of all that can be seen, the one at the bottom of the page."""

READ = "/* tavernkit: read */ return [window.__tavernkit.times, window.__tavernkit.sizes];"


def write_files(folder: Path) -> None:
    """Write the workload in the formats that SillyTavern imports."""
    given = workloads.build()
    folder.mkdir(parents=True, exist_ok=True)
    preset = {**bench_st_build.inputs()["preset"].to_json(), "stream_openai": False}
    (world,) = given["world_info"].values()
    header = {"user_name": given["user_name"], "character_name": given["card"]["data"]["name"], "chat_metadata": {}}
    lines = [header, *({"is_user": False, "is_system": False, **line} for line in given["chat"])]
    contents = {
        "card.json": json.dumps(given["card"]),
        "world.json": json.dumps(world),
        "preset.json": json.dumps(preset, indent=4),
        "chat.jsonl": "\n".join(map(json.dumps, lines)),
    }
    for name, content in contents.items():
        (folder / name).write_text(content, encoding="utf-8")


def their_times(browser: Browser, turns: int, pause: Callable[[float], None] = time.sleep) -> list[tuple[float, int]]:
    """Send messages in the page; return milliseconds and the number of messages of each request.

    Args:
        browser: A window in which the chat is open.
        turns: How many messages are sent.
        pause: Waits between two looks at the page.
    """
    browser.run(INSTALL, REPLY)
    for turn in range(turns):
        box = browser.run(INPUT)
        if box is None:
            raise WebDriverError("the page has no box to write in: open the chat first")
        browser.type(box, f"And the {turn}th door?{ENTER}")
        deadline = time.monotonic() + WAIT_SECONDS
        while len(browser.run(READ)[0]) <= turn:
            if time.monotonic() > deadline:
                raise WebDriverError("the page sent no request: is a chat completion source connected?")
            pause(POLL_SECONDS)
        pause(POLL_SECONDS)  # the reply is shown and saved
    times, sizes = browser.run(READ)
    return list(zip(map(float, times), map(int, sizes), strict=True))


def our_times(turns: int) -> list[tuple[float, int]]:
    """Build the same turns with one builder."""
    given = bench_st_build.inputs()
    builder = Builder(**given)
    chat: Sequence[ChatMessage] = given["history"]
    found: list[tuple[float, int]] = []
    for turn in range(turns):
        start = time.perf_counter()
        plan = builder.build(history=chat, message=f"And the {turn}th door?")
        messages = plan.to_messages()
        found.append((1000 * (time.perf_counter() - start), len(messages)))
        chat = [*plan.chat, ChatMessage(name="Lyra", mes=REPLY)]
    return found


def report(theirs: Sequence[tuple[float, int]], ours: Sequence[tuple[float, int]]) -> str:
    """Say what both took, and the ratios: the first turn apart, as caches are empty then."""
    lines = ["| | SillyTavern | TavernKit | ratio |", "|---|---:|---:|---:|"]
    rows = {"first turn": slice(0, 1), "next turns, median": slice(1, None)}
    for name, which in rows.items():
        their, our = (statistics.median([took for took, _ in each[which]]) for each in (theirs, ours))
        lines.append(f"| {name} | {their:.1f} ms | {our:.1f} ms | {their / our:.1f} |")
    least = [min(took for took, _ in each[1:]) for each in (theirs, ours)]
    lines.append(f"| next turns, least | {least[0]:.1f} ms | {least[1]:.1f} ms | {least[0] / least[1]:.1f} |")
    lines.append(f"| messages of the last prompt | {theirs[-1][1]} | {ours[-1][1]} | |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files, or compare."""
    parser = argparse.ArgumentParser(prog="benchmarks.against_sillytavern", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    files = commands.add_parser("files", help="write the workload as files that SillyTavern imports")
    files.add_argument("folder", type=Path)
    run = commands.add_parser("run", help="compare with an installation that runs")
    run.add_argument("--url", default="http://127.0.0.1:8000", help="where SillyTavern is")
    run.add_argument("--webdriver", default="http://127.0.0.1:9515", help="where chromedriver or geckodriver is")
    run.add_argument("--turns", type=int, default=TURNS, help="how many messages are sent (at least 2)")
    run.add_argument("--ready", action="store_true", help="do not wait for Enter: the page opens the chat by itself")
    given = parser.parse_args(arguments)
    if given.command == "files":
        write_files(given.folder)
        print(STEPS.format(folder=given.folder))
        return 0
    if given.turns < 2:
        parser.error("--turns must be at least 2: the first is reported apart")
    try:
        with Browser(given.webdriver) as browser:
            browser.open(given.url)
            if not given.ready:
                input("Choose the character and its chat in the window, then press Enter here. ")
            theirs = their_times(browser, given.turns)
    except WebDriverError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(report(theirs, our_times(given.turns)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
