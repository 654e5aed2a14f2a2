"""`python -m tests.conformance`: run a folder of vectors and print `surface passed/total`."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from tests.conformance import runner


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument(
        "--vectors", type=Path, default=runner.VECTORS, help="folder of vectors (default: the vendored)"
    )
    parser.add_argument("--surface", default="*", help="only surfaces that match, such as 'core/*'")
    parser.add_argument("--id", help="only this case; shows its input and result")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--show", type=int, default=3, help="how many failures to show for each surface")
    args = parser.parse_args()

    known = runner.known_differences()
    report: dict[str, object] = {}
    failed = False
    for surface in runner.surfaces(args.vectors, args.surface):
        chosen = [case for case in runner.cases(surface, args.vectors) if args.id in (None, case.id)]
        if not chosen:
            continue
        if runner.adapter(surface) is None:
            report[surface] = {"total": len(chosen), "adapter": False}
            if not args.json:
                print(f"{surface} no adapter ({len(chosen)} cases)")
            continue
        outcomes = [runner.run(case) for case in chosen]
        failures = [o for o in outcomes if o.failed and o.case.id not in known]
        accepted = sum(1 for o in outcomes if o.failed and o.case.id in known)
        lacking = Counter(o.lacking for o in outcomes if o.lacking and not o.failed)
        passed = sum(1 for o in outcomes if o.passed)
        failed = failed or bool(failures)
        report[surface] = {
            "total": len(outcomes),
            "passed": passed,
            "known_differences": accepted,
            "lacking": dict(lacking),
            "failed": [o.case.id for o in failures],
        }
        if args.json:
            continue
        notes = [f"{accepted} known differences"] if accepted else []
        notes += [f"{count} need {what}" for what, count in sorted(lacking.items())]
        print(f"{surface} {passed}/{len(outcomes)}" + (f" ({', '.join(notes)})" if notes else ""))
        for outcome in failures[: args.show]:
            print_failure(outcome)
        if args.id and not failures:
            print(json.dumps(outcomes[0].actual, ensure_ascii=False, indent=2, default=str))
    if args.json:
        print(json.dumps(report, indent=2))
    if not report:
        print("no such vectors", file=sys.stderr)
        return 2
    return 1 if failed else 0


def print_failure(outcome: runner.Outcome) -> None:
    case = outcome.case
    print(f"\n  {case.id}  {case.note}  {' '.join(case.tags)}")
    shown = json.dumps(case.input, ensure_ascii=False)
    print(f"  input: {shown[:2000]}{' …' if len(shown) > 2000 else ''}")
    for line in outcome.differences[:10]:
        print(f"  - {line}")
    if outcome.error:
        print("  " + outcome.error.replace("\n", "\n  "))


if __name__ == "__main__":
    sys.exit(main())
