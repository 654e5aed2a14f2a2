"""Build the example's prompt for two programs and print it with an explanation."""

from __future__ import annotations

import tavernkit as tk
from tavernkit import risu_ai
from tavernkit import silly_tavern as st
from tavernkit.examples import example_path


def main() -> None:
    bundle = tk.load(example_path("aria.json"))
    user = tk.User(name="Ann")
    plan = st.build(
        character=bundle.character,
        user=user,
        preset=st.Preset.load(example_path("preset.json")),
        books=[st.WorldBook.load(example_path("tidewatch.json"))],
        history=st.ChatFile.load(example_path("chat.jsonl")),
        message="Who lit the lamp again?",
    )
    print(plan.explain())
    print()
    print(risu_ai.build(character=bundle.character, user=user, message="Who lit the lamp again?").explain())


if __name__ == "__main__":
    main()
