"""Text: regular expressions against the bare engine, what a guard costs, and JavaScript's values."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from itertools import count

import pytest
import regress
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks import workloads
from tavernkit._text.js_regex import JSRegex, guard, warm_up
from tavernkit._text.js_values import json_stringify, number_to_string, to_number
from tavernkit._text.verbatim_masker import mask, unmask
from tavernkit._workers.worker import Worker


def prose(lines: int) -> str:
    rng = random.Random(3)
    made: list[str] = []
    for _ in range(lines):
        words = " ".join(rng.choice(workloads.WORDS) for _ in range(14))
        made.append(f'{words}. "Who is {rng.choice(workloads.WORDS)}?" *She smiles.* {{{{user}}}} nods.')
    return "\n".join(made)


ASCII = prose(60)
EMOJI = ASCII.replace("smiles", "smiles 😀")

PATTERNS = {
    "word": ("\\bsmiles\\b", "gi"),
    "quoted": ('"(.*?)"', "g"),
    "starred": ("\\*([^*]+)\\*", "g"),
    "macro": ("\\{\\{(char|user)\\}\\}", "gi"),
    "ends": ("^[ \\t]+|[ \\t]+$", "gm"),
    "pairs": ("(\\w+)\\s+(\\w+)", "g"),
}


def bare(source: str, flags: str) -> regress.Regex:
    """The engine with the very program that ours runs."""
    return JSRegex(source, flags)._engine.regex


def direct_find_all(engine: regress.Regex, text: str) -> list[str]:
    """Cut out all matches; the engine gives their places in bytes."""
    if text.isascii():
        return [text[match.range()] for match in engine.find_iter(text) or ()]
    data = text.encode()
    return [data[match.range()].decode() for match in engine.find_iter(text) or ()]


def direct_replace(engine: regress.Regex, text: str) -> str:
    """Put brackets around every match, as ``[$&]`` does."""
    data = text.encode()
    pieces: list[bytes] = []
    at = 0
    for match in engine.find_iter(text) or ():
        span = match.range()
        pieces += (data[at : span.start], b"[", data[span], b"]")
        at = span.stop
    pieces.append(data[at:])
    return b"".join(pieces).decode()


def ours_and_direct(name: str) -> dict[str, Callable[[str], object]]:
    regex, engine = JSRegex(*PATTERNS[name]), bare(*PATTERNS[name])
    return {
        "find_all-direct": lambda text: direct_find_all(engine, text),
        "find_all-ours": lambda text: [match.text for match in regex.find_all(text)],
        "replace-direct": lambda text: direct_replace(engine, text),
        "replace-ours": lambda text: regex.replace(text, "[$&]"),
        "search-direct": lambda text: engine.find(text),
        "search-ours": lambda text: regex.search(text),
    }


@pytest.mark.parametrize("how", ["search", "find_all", "replace"])
@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("text", ["ascii", "emoji"])
@pytest.mark.parametrize("who", ["direct", "ours"])
def test_ordinary(benchmark: BenchmarkFixture, name: str, how: str, text: str, who: str) -> None:
    """5 KB of prose, also with characters that JavaScript counts as two. Target: within twice of the bare engine."""
    benchmark.group = f"{how} {name} {text}"
    prose = {"ascii": ASCII, "emoji": EMOJI}[text]
    work = ours_and_direct(name)
    result = benchmark(work[f"{how}-{who}"], prose)
    if how != "search":
        assert result == work[f"{how}-direct"](prose)


@pytest.mark.parametrize("source", ["s.", "😀"])
def test_replace_in_units(benchmark: BenchmarkFixture, source: str) -> None:
    """Patterns that can tell a character from its two units, so that the text is taken apart."""
    regex = JSRegex(source, "g")
    result = benchmark(regex.replace, EMOJI, "[$&]")
    assert result.replace("[", "").replace("]", "") == EMOJI


def test_fresh_text_every_time(benchmark: BenchmarkFixture) -> None:
    """A quadratic pattern whose verdict needs a look at the text, on texts never seen before."""
    regex = JSRegex("(\\w+)\\s+(\\w+)", "g")
    numbers = count()
    benchmark.pedantic(
        lambda text: regex.find_all(text), setup=lambda: ((f"{next(numbers)} {ASCII}",), {}), rounds=200, iterations=1
    )


GUARDED = JSRegex("(\\w+\\s?)+\\.", "g")


def test_guarded_call(benchmark: BenchmarkFixture) -> None:
    """A pattern that may run away, on text where it does not: one round trip to a worker process."""
    text = "one two three four. " * 100
    assert not GUARDED._guard.is_quick(text, 0.1)
    assert len(benchmark(GUARDED.find_all, text, timeout=10)) == 100


def test_worker_start(benchmark: BenchmarkFixture) -> None:
    """From nothing to a worker process that is ready; counts against the budget of the first guarded call."""

    def start() -> None:
        worker = Worker()
        worker.wait_until_ready(time.monotonic() + 60)
        worker.stop()

    benchmark(start)


def test_hopeless_call_again(benchmark: BenchmarkFixture) -> None:
    """A call that ran out of time a moment ago is not tried again."""
    warm_up()
    text = "a" * 64 + "!"
    regex = JSRegex("(a+)+$")
    assert regex.search(text, timeout=0.05) is None
    assert benchmark(regex.search, text, timeout=0.05) is None


def test_compile(benchmark: BenchmarkFixture) -> None:
    """Parsing, rewriting and compiling a pattern that is not in the cache."""
    benchmark(JSRegex, "<(\\w+)[^>]*>([\\s\\S]*?)</\\1>", "gi")


def test_first_verdict(benchmark: BenchmarkFixture) -> None:
    """The cost model of a pattern, made when it first meets a text."""
    pattern = JSRegex("<(\\w+)[^>]*>([\\s\\S]*?)</\\1>", "gi")._pattern
    assert benchmark(lambda: guard.Guard(pattern).is_quick("x", 0.1))


def test_numbers_to_text_and_back(benchmark: BenchmarkFixture) -> None:
    rng = random.Random(5)
    numbers = [rng.uniform(-1e6, 1e6) for _ in range(1000)]
    assert benchmark(lambda: [to_number(number_to_string(number)) for number in numbers]) == numbers


def test_json_stringify(benchmark: BenchmarkFixture) -> None:
    value = {"entries": {str(index): {"key": ["a", "b"], "order": index, "text": ASCII[:80]} for index in range(200)}}
    assert benchmark(json_stringify, value).startswith('{"entries":{"0":{"key":["a","b"],"order":0')


def test_masking(benchmark: BenchmarkFixture) -> None:
    text = ASCII + "`code` ```fence``` \\<b> "
    assert benchmark(lambda: unmask(*mask(text))) == text.replace("\\<", "&lt;")
