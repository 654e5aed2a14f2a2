"""``python -m benchmarks.regular_expressions``: regular expressions in multiples of the bare engine's time.

Processor time unless something else is said, the least of many. ``--json`` prints one JSON object, ``--quick`` only
tries whether it works.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from itertools import count

from benchmarks.bench_text import ASCII, EMOJI, PATTERNS, bare, direct_find_all, ours_and_direct
from tavernkit._text.js_regex import JSRegex, warm_up
from tavernkit._workers.worker import Worker

HOW = ("find_all", "replace", "search")
TEXTS = {"ascii": ASCII, "letters": ASCII.replace("She", "Zoë"), "emoji": EMOJI}
SHORT_TEXT = 'She *smiles*. {{user}} says "no".'
UNITS = (".", ".{2}", "😀")
LOOP_SECONDS = 0.005
ROUNDS = 25

Work = Callable[[], object]


def least(works: Sequence[Work], rounds: int, clock: Callable[[], float] = time.process_time) -> list[float]:
    """Return the least seconds of each work, measured in turn, so that all meet the same neighbours."""
    loops: list[int] = []
    for work in works:
        work()
        started = clock()
        work()
        loops.append(max(int(LOOP_SECONDS / max(clock() - started, 1e-7)), 1))
    best = [float("inf")] * len(works)
    for _ in range(rounds):
        for place, (work, loop) in enumerate(zip(works, loops, strict=True)):
            started = clock()
            for _ in range(loop):
                work()
            best[place] = min(best[place], (clock() - started) / loop)
    return best


def ratios(rounds: int) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Return microseconds of ours and of the bare engine, by what is done, the text and the pattern."""
    texts = {**TEXTS, "short": SHORT_TEXT}
    return {
        how: {
            kind: {name: _pair(name, how, text, rounds) for name in PATTERNS}
            for kind, text in texts.items()
            if kind != "short" or how == "search"
        }
        for how in HOW
    }


def _pair(name: str, how: str, text: str, rounds: int) -> list[float]:
    works = ours_and_direct(name)
    ours, direct = works[f"{how}-ours"], works[f"{how}-direct"]
    return [1e6 * each for each in least((lambda: ours(text), lambda: direct(text)), rounds)]


def in_units(rounds: int) -> dict[str, float]:
    """Return multiples for patterns that can tell an emoji from its two UTF-16 units, in a text with emoji.

    Such patterns run on the units of the text; the bare engine gets the text as it is.
    """
    found: dict[str, float] = {}
    for source in UNITS:
        ours, direct = JSRegex(source, "g"), bare(source, "gu")
        works = (lambda ours=ours: ours.find_all(EMOJI), lambda direct=direct: direct_find_all(direct, EMOJI))
        mine, engine = least(works, max(rounds // 3, 1))
        found[source] = mine / engine
    return found


def costs(rounds: int) -> dict[str, float]:
    """Return what a pattern costs, in microseconds."""
    plain, many = "lantern " * 4, "lantern " * 24
    numbers = count()
    few, more, longer, groups = least(
        (
            lambda: JSRegex("x", "g"),
            lambda: JSRegex(plain, "g"),
            lambda: JSRegex(many, "g"),
            lambda: JSRegex("x" + "(a)[bc]d+" * 10, "g"),
        ),
        rounds,
    )
    found = {
        "parse_character": 1e6 * (longer - more) / (len(many) - len(plain)),
        "parse_part": 1e6 * (groups - few) / 30,
    }
    for name in ("quoted", "starred", "ends", "pairs"):
        regex = JSRegex(*PATTERNS[name])
        again, new = least(
            (
                lambda regex=regex: regex.find_all(f"{next(numbers) % 1} {ASCII}"),
                lambda regex=regex: regex.find_all(f"{next(numbers)} {ASCII}"),
            ),
            rounds,
        )
        found[f"new_text_{name}"] = max(1e6 * (new - again), 0.0)
    lacking, quick, slow = JSRegex("\\bsmirks\\b", "g"), JSRegex("\\bsmiles\\b", "g"), JSRegex(".*smiles.*", "g")
    one_line = ASCII.replace("\n", " ").replace("smiles", "waits") + "\nShe smiles."
    absent, word, every = least(
        (lambda: lacking.search(ASCII), lambda: quick.search(one_line), lambda: slow.search(one_line)),
        max(rounds // 3, 1),
    )
    return {**found, "required_part_missing": 1e6 * absent, "word": 1e6 * word, "anything_around": 1e6 * every}


def workers(rounds: int) -> dict[str, float]:
    """Return milliseconds by the clock: a call in a worker process besides the engine's own time, and its start."""
    source, text = "(\\w+\\s?)+\\.", "one two three four. " * 100
    guarded, direct = JSRegex(source, "g"), bare(source, "g")
    warm_up()
    assert not guarded._guard.is_quick(text, 0.1)
    ours, engine = least(
        (lambda: guarded.find_all(text, timeout=10), lambda: list(direct.find_iter(text) or ())),
        rounds,
        time.perf_counter,
    )
    starts: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        worker = Worker()
        worker.wait_until_ready(time.monotonic() + 60)
        starts.append(time.perf_counter() - began)
        worker.stop()
    return {"call_ms": 1000 * (ours - engine), "start_ms": 1000 * sorted(starts)[len(starts) // 2]}


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    rounds = 2 if given.quick else ROUNDS
    found = {"ratios": ratios(rounds), "units": in_units(rounds), "costs_us": costs(rounds), "workers": workers(rounds)}
    if given.json:
        print(json.dumps(found))
        return
    for how, texts in found["ratios"].items():
        for kind, pairs in texts.items():
            shown = "  ".join(f"{name} {ours / direct:.2f}" for name, (ours, direct) in pairs.items())
            print(f"{how:9} {kind:8} {shown}")
    for what in ("units", "costs_us", "workers"):
        print(f"{what:18} " + "  ".join(f"{name} {value:.2f}" for name, value in found[what].items()))


if __name__ == "__main__":
    main()
