"""Write the HTML report of a prompt: `python examples/write_a_report.py [report.html]`."""

from __future__ import annotations

import sys
from pathlib import Path

import tavernkit as tk
from tavernkit import silly_tavern as st
from tavernkit.examples import example_path
from tavernkit.report import overview, render_html


def main(target: str) -> None:
    plan = st.build(
        character=tk.load(example_path("aria.json")).character,
        books=[st.WorldBook.load(example_path("tidewatch.json"))],
        message="Who lit the lamp again?",
    )
    Path(target).write_text(render_html(overview(plan), messages=plan.to_messages()), encoding="utf-8")
    print(f"wrote {target}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "report.html")
