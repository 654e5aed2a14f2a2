"""Build a prompt for every card of a folder and every line of a file, as JSON lines; goes on after an interrupt.

    python examples/many_prompts.py cards/ messages.txt prompts.jsonl

The same cards and messages give the same bytes: the clock stands still and dice are seeded.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import tavernkit as tk
from tavernkit import silly_tavern as st
from tavernkit.examples import example_path

ENDINGS = {".png", ".json", ".charx", ".webp", ".yaml"}
NOW = datetime(2026, 1, 5, tzinfo=UTC)


def prompts(card: Path, messages: list[str]) -> Iterator[dict[str, object]]:
    """Give one record a message; a card that cannot be read is one record that says so."""
    try:
        builder = st.Builder(character=tk.load(card).character, seed=1, clock=lambda: NOW, warn=None)
    except tk.TavernKitError as error:
        yield {"card": card.name, "error": str(error)}
        return
    for message in messages:
        plan = builder.build(message=message)
        yield {
            "card": card.name,
            "message": message,
            "fingerprint": plan.fingerprint(),
            "tokens": plan.explain().total_tokens,
            "warnings": list(plan.warnings),
            "messages": plan.to_messages(),
        }


def finished(target: Path) -> int:
    """Count the lines that are there, without one that an interrupt has cut off, which is taken away."""
    if not target.exists():
        return 0
    whole, _, _ = target.read_bytes().rpartition(b"\n")
    target.write_bytes(whole + b"\n" if whole else b"")
    return whole.count(b"\n") + 1 if whole else 0


def main(folder: Path, messages: list[str], target: Path) -> None:
    cards = sorted(path for path in folder.iterdir() if path.suffix.lower() in ENDINGS)
    done = number = finished(target)
    with target.open("a", encoding="utf-8") as stream:
        records = (record for card in cards for record in prompts(card, messages))
        for number, record in enumerate(records, start=1):
            if number > done:
                stream.write(json.dumps(record, ensure_ascii=False) + "\n")
    print(f"{target}: {number} lines, {done} of them from before")


if __name__ == "__main__":
    if len(sys.argv) == 4:
        main(Path(sys.argv[1]), Path(sys.argv[2]).read_text(encoding="utf-8").splitlines(), Path(sys.argv[3]))
    elif len(sys.argv) > 1:
        sys.exit("usage: many_prompts.py CARDS_FOLDER MESSAGES_FILE TARGET")
    else:  # on the example that comes with TavernKit
        Path("cards").mkdir(exist_ok=True)
        Path("cards/aria.json").write_bytes(example_path("aria.json").read_bytes())
        main(Path("cards"), ["Who are you?", "{{roll::1d20}} steps to the lamp"], Path("prompts.jsonl"))
