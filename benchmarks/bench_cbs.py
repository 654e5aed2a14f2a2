"""CBS: what a status panel costs the first time and on every turn after it, and what plain text costs."""

from __future__ import annotations

from itertools import count

from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks import workloads
from tavernkit.risu_ai._cbs import CBSEngine
from tavernkit.risu_ai._cbs.context import CBSContext

PANEL = workloads.cbs()
PLAIN = ("lorem ipsum dolor sit amet " * 40 + "{{user}} said <char>.\n") * 46


def context(hp: str = "20") -> CBSContext:
    made = CBSContext(char="Bel", user="Ann")
    made.variables.set("hp", hp)
    return made


def check_panel(text: str, hp: int) -> None:
    lines = text.split("\n")
    assert len(lines) == 80
    assert lines[0] == (f"HP row 0: {hp * 2} / 2" if hp > 0 else "down")
    assert lines[1] == "- a X- b X- c X"
    assert lines[78] == (f"HP row 39: {hp * 2 + 39} / 2" if hp > 39 else "down")


def test_panel_first_run(benchmark: BenchmarkFixture) -> None:
    """A fresh engine each time: the text is compiled and run. Target: under 2.5 ms."""
    where = context()

    def fresh() -> tuple[tuple[CBSEngine], dict[str, object]]:
        return (CBSEngine(),), {}

    check_panel(benchmark.pedantic(lambda engine: engine.expand(PANEL, where), setup=fresh, rounds=200), 20)


def test_panel_repeated_with_other_values(benchmark: BenchmarkFixture) -> None:
    """Another value of the variable each time. Target: under 0.8 ms."""
    engine, where, values = CBSEngine(), context(), count()

    def turn() -> str:
        where.variables.set("hp", str(next(values)))
        return engine.expand(PANEL, where)

    benchmark(turn)
    check_panel(turn(), next(values) - 1)


def test_50_kb_with_few_braces(benchmark: BenchmarkFixture) -> None:
    engine, where = CBSEngine(), context()
    assert benchmark(lambda: engine.expand(PLAIN, where)).count("Ann said Bel.") == 46


def test_50_kb_with_few_braces_first_run(benchmark: BenchmarkFixture) -> None:
    where = context()

    def fresh() -> tuple[tuple[CBSEngine], dict[str, object]]:
        return (CBSEngine(),), {}

    benchmark.pedantic(lambda engine: engine.expand(PLAIN, where), setup=fresh, rounds=200)


def test_plain_text(benchmark: BenchmarkFixture) -> None:
    engine, where = CBSEngine(), context()
    text = "no braces here. " * 3000
    assert benchmark(lambda: engine.expand(text, where)) == text


def test_lists_that_change(benchmark: BenchmarkFixture) -> None:
    """An inventory whose items are new every time: what is inserted has to be compiled again."""
    engine, where, values = CBSEngine(), context(), count()
    text = "{{#each {{getvar::bag}} as item}}- {{upper::{{slot::item}}}}\n{{/each}}"

    def turn() -> str:
        number = next(values)
        where.variables.set("bag", "§".join(f"item {number} {index}" for index in range(50)))
        return engine.expand(text, where)

    assert benchmark(turn).count("- ITEM") == 50


def test_the_scanner_takes_over(benchmark: BenchmarkFixture) -> None:
    """A tag that starts with a value, at the very beginning: nothing can be compiled."""
    engine, where = CBSEngine(), context()
    text = "{{{{getvar::hp}}}}" + PANEL
    assert benchmark(lambda: engine.expand(text, where, warn=lambda _: None)).startswith("{{20}}HP row 0: 40 / 2")
