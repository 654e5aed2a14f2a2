"""Print the shares of characters by kind over recorded builds: ``python -m tests.source_map [surface…]``."""

from __future__ import annotations

import sys
from collections import Counter

from tests.source_map.recorded import CHAT, RISU_AI, TEXT, count, plans, problems, unknown_texts

SHOWN = 10


def main() -> int:
    """Go through the surfaces; returns 1 if anything is wrong."""
    failed = 0
    for surface in sys.argv[1:] or (*CHAT, *TEXT, *RISU_AI):
        total: Counter[str] = Counter()
        lost: Counter[str] = Counter()
        builds, wrong = 0, list[str]()
        for case, plan in plans(surface):
            found = plan.source_map()
            builds += 1
            total += count(found)
            lost.update(unknown_texts(found))
            wrong += [f"{case}: {problem}" for problem in problems(found)]
            if not found.exact:
                wrong.append(f"{case}: was built differently")
        ours = sum(total[kind] for kind in ("verbatim", "expanded", "replaced", "aligned"))
        print(f"{surface}: {builds} builds, {total['known'] / max(ours, 1):.2%} known, {len(wrong)} problems")
        print("  characters:", ", ".join(f"{kind} {number}" for kind, number in total.items()))
        longest = sorted(lost, key=lambda text: -len(text) * lost[text])[:SHOWN]
        print("  added most:", ", ".join(f"{text[:40]!r} ({lost[text]} times)" for text in longest))
        print("".join(f"  {problem}\n" for problem in wrong[:SHOWN]), end="")
        failed += len(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
