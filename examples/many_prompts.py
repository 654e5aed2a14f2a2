"""Build a prompt for every card of a folder and every line of a file, on all cores, and continue after an interruption.

    python examples/many_prompts.py cards/ messages.txt prompts/

The command line does the same, and more: tavernkit batch --init
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import tavernkit as tk
from tavernkit.examples import example_path


def main(cards: str, messages: str, target: str) -> None:
    grid = tk.Grid({"cards": f"{cards}/*", "messages": {"file": messages}, "seeds": [1, 2]})
    result = tk.batch(grid, target, resume=True)
    print(f"{target}: {result.records} records, {result.skipped} of them from before, {result.failed} with an error")


if __name__ == "__main__":
    if len(sys.argv) == 4:
        main(*sys.argv[1:])
    elif len(sys.argv) > 1:
        sys.exit("usage: many_prompts.py CARDS_FOLDER MESSAGES_FILE TARGET_FOLDER")
    else:  # on the example that comes with TavernKit
        Path("cards").mkdir(exist_ok=True)
        shutil.copy(example_path("aria.json"), "cards")
        Path("messages.txt").write_text("Who are you?\n{{roll::1d20}} steps to the lamp\n", encoding="utf-8")
        main("cards", "messages.txt", "prompts")
