"""The generated parts of the page, made of the numbers of their sections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from benchmarks.performance_page.formats import (
    DASH,
    growth_row,
    megabytes,
    milliseconds,
    multiples,
    number,
    seconds,
    table,
)

Numbers: TypeAlias = Mapping[str, Any]

NOW, BEFORE = "now", "before"

BUILDS: tuple[tuple[str, str, tuple[tuple[str, str, str, str], ...]], ...] = (
    (
        "**World Info**: 100 messages, scan depth 100, three keys per entry",
        "SillyTavern",
        (
            ("scan 1,000 entries", "bench_world_info::test_scan[1000-0.015]", "", "200 ms"),
            ("scan 10,000 entries", "bench_world_info::test_scan[10000-0.015]", "15 ms", "1,900 ms"),
            ("scan 100,000 entries", "bench_world_info::test_scan[100000-0.06]", "60 ms", "(40,000: 7,600 ms)"),
            (
                "scan 1,000 entries whose 3,000 keys are regular expressions",
                "bench_world_info::test_scan_with_a_thousand_regex_keys",
                "",
                DASH,
            ),
            ("compile 10,000 entries", "bench_world_info::test_compile[10000-0.3]", "", DASH),
            ("compile 100,000 entries", "bench_world_info::test_compile[100000-3.0]", "3,000 ms", DASH),
        ),
    ),
    (
        "**Macros**: a 2 KB field with 20 macros",
        "SillyTavern",
        (
            ("first expansion", "bench_st_macros::test_card_field_first_time", "1.5 ms", DASH),
            ("each further one", "bench_st_macros::test_card_field_again", "0.18 ms", "0.9 ms"),
        ),
    ),
    (
        "**CBS**: an 8 KB status panel",
        "RisuAI",
        (
            ("first run", "bench_cbs::test_panel_first_run", "2.5 ms", "2.3 ms"),
            ("with other variable values", "bench_cbs::test_panel_repeated_with_other_values", "0.8 ms", "2.3 ms"),
        ),
    ),
    (
        "**Chat build**: 15 prompts, 200 lore entries, 300 messages, 16k context",
        "SillyTavern",
        (
            ("first build in a new process", "first build, all in", "80 ms", "3,200 ms"),
            ("import of the builder and first build", "import and first build", "", DASH),
            ("first build of a new builder, tokenizer loaded", "bench_st_build::test_first_build", "", DASH),
            ("next turn", "bench_st_build::test_next_turn", "10 ms", "100 to 190 ms"),
            ("next turn of 5,000 messages", "bench_st_build::test_next_turn_of_a_long_history", "", DASH),
        ),
    ),
    (
        "**The same build as text completion**",
        "SillyTavern",
        (
            ("first build of a new builder, tokenizer loaded", "bench_st_text::test_first_build", "", DASH),
            ("next turn", "bench_st_text::test_next_turn", "", DASH),
            ("next turn of 5,000 messages", "bench_st_text::test_next_turn_of_a_long_history", "", DASH),
        ),
    ),
    (
        "**The same chat as a RisuAI build**, two regex scripts over every message",
        "RisuAI",
        (
            ("first build of a new builder, tokenizer loaded", "bench_risu_build::test_first_build", "", DASH),
            ("next turn", "bench_risu_build::test_next_turn", "", DASH),
            ("next turn of 5,000 messages", "bench_risu_build::test_next_turn_of_a_long_history", "", DASH),
            ("scan 10,000 lorebook entries", "bench_risu_lore::test_scan_10000_entries", "", DASH),
            ("compile 10,000 lorebook entries", "bench_risu_lore::test_compile_10000_entries", "", DASH),
        ),
    ),
    (
        "**Other**",
        "",
        (
            ("read a PNG card", "bench_cards::test_load_a_png_card", "", DASH),
            ("trim 10,000 blocks that fit", "bench_budget::test_trim_10000_blocks_that_fit", "", DASH),
            (
                "Google's payload of 1,000 messages with strict alternation",
                "bench_dialects::test_convert_1000_messages_strictly[google]",
                "",
                DASH,
            ),
            (
                "a request of the prompt runner, 1,000 messages",
                "bench_vibe_tavern::test_build_request[1000]",
                "",
                DASH,
            ),
            ("ten rounds of the tool loop", "bench_vibe_tavern::test_ten_tool_rounds", "", DASH),
            (
                "a call of a Lua handler (now in a worker process)",
                "bench_risu_triggers::test_a_lua_handler",
                "",
                DASH,
            ),
        ),
    ),
)
"""Groups of rows, and the program that the last column is about: name, benchmark, goal, the other program's time."""


def builds(found: Numbers) -> str:
    """Both versions, in processor time and by the clock."""
    rows: list[list[str]] = []
    for group, original, group_rows in BUILDS:
        rows.append([group, "", "", "", "", "", original])
        for name, benchmark, goal, other in group_rows:
            times = [_of(found, version, benchmark, clock) for version in (NOW, BEFORE) for clock in CLOCKS]
            rows.append([name, *map(milliseconds, times), goal, other])
    fit = [str(_of(found, version, "messages that fit") or DASH) for version in (NOW, BEFORE)]
    rows.append(["messages of the text completion that fit into its prompt", fit[0], "", fit[1], "", "", DASH])
    return table("workload | >now | >elapsed | >0.1.0 | >elapsed | >goal | >original", rows)


CLOCKS = ("processor_ms", "clock_ms")


def memory(found: Numbers) -> str:
    """What a builder adds to a bare process."""
    parts = found["builder"]
    rows = [
        ["modules", megabytes(parts["modules"])],
        ["the vocabulary and its merge table", megabytes(parts["vocabulary"])],
        ["the inputs, the builder and its first plan", megabytes(parts["rest"])],
        ["together", megabytes(parts["added"])],
        ["a bare Python process, for comparison", megabytes(parts["bare"])],
    ]
    return table("memory that a builder with these inputs adds to a process | >", rows)


def start_up(found: Numbers) -> str:
    """Imports, commands, and the parts of a first build."""

    def imports(version: str, clock: str, name: str = "import") -> float | None:
        whole, bare = _of(found, version, name, clock), _of(found, version, "python", clock)
        return None if whole is None or bare is None else whole - bare

    def cells(show: Callable[[float | None], str], value: Callable[[str, str], float | None]) -> list[str]:
        return [show(value(version, clock)) for version in (NOW, BEFORE) for clock in ("clock_ms", "processor_ms")]

    rows = [
        ["import the builder, without Python itself", *cells(milliseconds, imports), "120 ms"],
        [
            "the same without compiled bytecode of TavernKit",
            *cells(milliseconds, lambda version, clock: imports(version, clock, "import_uncompiled")),
            "",
        ],
    ]
    for name, command, goal in (
        ("`tavernkit --help`", "help", "0.15 s"),
        ("`tavernkit build` of a card", "build", "0.5 s"),
        ("`tavernkit serve`, two workers, until `/ready`", "serve", "1.5 s"),
    ):
        times = cells(seconds, lambda version, clock, command=command: _of(found, version, command, clock))
        rows.append([name, *times, goal])
    for name, part in (
        ("load the vocabulary", "load the vocabulary"),
        ("make the tokenizer's merge table", "make the table of merges"),
    ):
        processor, clock = found["parts"][part]
        rows.append([name, milliseconds(clock), milliseconds(processor), DASH, DASH, ""])
    return table("| >now | >processor time | >0.1.0 | >processor time | >goal", rows)


def growth(found: Numbers) -> str:
    """Operations at three sizes."""
    return table(
        "operation | grows with | >sizes | >ms | >exponent", (growth_row(each) for each in found["operations"])
    )


def large_books(found: Numbers) -> str:
    """The first use of a book, by the number of its entries."""
    sizes = list(found[NOW])
    rows = [
        [f"{name}, {clock}", *(milliseconds(_of(found, kind, size, key)) for size in sizes)]
        for kind, name in ((BEFORE, "0.1.0"), (NOW, "now"), ("index", "with an index"))
        for key, clock in (("processor_ms", "processor time"), ("clock_ms", "elapsed"))
    ]
    goals = {"10000": "150 ms", "40000": "600 ms", "100000": "1,700 ms"}
    rows.append(["goal (with an index a third of it)", *(goals[size] for size in sizes)])
    return table("entries | " + " | ".join(f">{int(size):,}" for size in sizes), rows)


PLATFORMS = ("chat", "text", "risu")


def source_maps(found: Numbers) -> str:
    """A build and its map, in multiples of the build."""

    def cell(platform: str, when: str, names: Iterable[str]) -> str:
        pairs = [found[key][when] for name in names if (key := f"{platform} {name}") in found]
        return multiples(both / build for build, both in pairs) if pairs else ""

    usual = ("new message", "note", "injections", "group")
    others = ("other lore", "variables", "hooks")
    rows = [
        [what, *(cell(platform, when, names) for platform in PLATFORMS)]
        for what, when, names in (
            ("a new message, an author's note, an injection, a group", "next", usual),
            ("the same with twenty regex scripts", "next", ("scripts",)),
            ("other lore, changed variables or hooks", "next", others),
            ("the first map of a new builder", "first", (*usual, "scripts", *others)),
            ("the first map after ten turns without", "late", (*usual, *others)),
            ("the same with twenty regex scripts", "late", ("scripts",)),
        )
    ]
    return table("| >chat completion | >text completion | >RisuAI", rows)


KINDS_OF_TEXTS = ("ascii", "letters", "emoji")


def regular_expressions(found: Numbers) -> str:
    """Ours in multiples of the bare engine's time."""
    ratios = found["ratios"]

    def cell(how: str, kind: str) -> str:
        return multiples(ours / direct for ours, direct in ratios[how][kind].values())

    rows = [
        [name, *(cell(how, kind) for kind in KINDS_OF_TEXTS)]
        for name, how in (
            ("find all matches and read their texts", "find_all"),
            ("replace all by a template", "replace"),
            ("search in a text again", "search"),
        )
    ]
    rows.append(["search in a text of a few words", cell("search", "short"), "", ""])
    rows.append(["find all of `.`, `.{2}` or an emoji", "", "", multiples(found["units"].values())])
    return table("| >ASCII | >letters beyond ASCII | >emoji", rows)


def pattern_costs(found: Numbers) -> str:
    """What a pattern costs, besides its matches."""
    costs, workers = found["costs_us"], found["workers"]
    character, part, word = (number(costs[name]) for name in ("parse_character", "parse_part", "word"))
    around = number(costs["anything_around"] / 1000)
    more = sorted(value for name, value in costs.items() if name.startswith("new_text_"))
    pairs = [pair for pairs in found["ratios"]["search"].values() for pair in pairs.values() if pair[1] < QUICK_US]
    rows = [
        [
            "parse it, once",
            f"{character} µs per plain character, {part} µs per group, class or repetition",
        ],
        [
            "a search that matches within the first characters",
            f"at most {number(max(ours - direct for ours, direct in pairs))} µs more than the engine",
        ],
        [
            "first call on a new text of more than 1,000 characters, with open-ended repeats",
            f"{number(more[0])} to {number(more[-1])} µs more",
        ],
        [
            "a text that lacks a part that the pattern requires",
            f"{number(costs['required_part_missing'])} µs: the engine is not called",
        ],
        [
            "`\\bsmiles\\b` and `.*smiles.*` on 5 KB in one line, before a line that contains it",
            f"{word} µs and {around} ms: the engine tries every position",
        ],
        [
            "a call that may take too long, in a worker process (elapsed)",
            f"{number(workers['call_ms'])} ms more; a worker starts in {number(workers['start_ms'])} ms",
        ],
    ]
    return table("what a pattern costs | >", rows)


QUICK_US = 1.0
"""Searches that the engine ends within this time have matched within the first characters."""


def service(found: Numbers) -> str:
    """The loads, with goals and the older version."""
    loads = found["loads"]
    rows: list[list[str]] = []
    for kind, name in (("sqlite", "SQLite"), ("postgres", "PostgreSQL")):
        for place, load in enumerate(loads[kind]):
            rows.append(["" if place else name, *_load_cells(load)])
    rows += [["SQLite, a model behind HTTP", *_load_cells(load)] for load in loads["http"]]
    rows.append(["goal", "50", "", "15 ms", "", "6 ms (PostgreSQL: 8 ms)"])
    rows.append(["", "500", "400 (SQLite)", "", "1,000 ms (SQLite)", ""])
    before = loads.get(BEFORE) or []
    rows += [["0.1.0, SQLite", *_load_cells(load)] for load in before] or [["0.1.0, SQLite", "500", *[DASH] * 4]]
    flush = f"A flush of the disk took {milliseconds(found['flush_ms'])}."
    failed = sum(load["failed"] for kind in loads.values() for load in kind)
    failures = "No turn failed." if not failed else f"{failed} turns failed."
    columns = "| >sessions | >turns per second | >p50 | >p99 | >processor time of a turn"
    return f"{table(columns, rows)}\n\n{flush} {failures}"


def _load_cells(load: Numbers) -> list[str]:
    processor = "" if load["sessions"] == 1 else milliseconds(load["processor_ms_of_all"])
    rate = f"{load['turns_per_second']:.0f}"
    return [str(load["sessions"]), rate, milliseconds(load["p50"]), milliseconds(load["p99"]), processor]


PARTS = (
    ("build", "build the prompt", "compiled and parsed data is kept from turn to turn"),
    ("http", "HTTP", "valid requests go past FastAPI's routing and dependencies"),
    (
        "open",
        "store the user's message, lock the session",
        "three queries, three writes, made by the driver itself",
    ),
    (
        "finish",
        "store the reply and what it changed, release the session",
        "four writes; only the last lines are compared",
    ),
    (
        "lines",
        "turn the stored lines into a chat, and back",
        "only the last lines, which a turn may change, are copied",
    ),
    ("model", "the scripted model", "not part of a real turn"),
    ("clean_up", "clean up the reply, as SillyTavern does", "once, where no macro runs"),
    (
        "rest",
        "the rest: tasks, flushes, requests, responses, metrics",
        "turns that come together are flushed together",
    ),
)


def profile(found: Numbers) -> str:
    """Shares of the samples."""
    samples = found["samples"]
    total = sum(samples.values())
    first, rest = PARTS[:-1], PARTS[-1:]
    ordered = [*sorted(first, key=lambda part: -samples.get(part[0], 0)), *rest]
    rows = [[name, f"{100 * samples.get(part, 0) / total:.0f} %", why] for part, name, why in ordered]
    return table("| >share | what keeps it small", rows)


def batches(found: Numbers, memory_of: Numbers) -> str:
    """Batches, and the memory of their workers."""
    worker = memory_of["worker"]
    records = " records and after ".join(f"{int(count):,}" for count in worker)
    sizes = " and ".join(dict.fromkeys(megabytes(size) for size in worker.values()))
    ray = DASH if found["two_nodes"] is None else f"{found['two_nodes']:.1f} times one process"
    rate = f"{number(1000 / found['processor_ms_of_a_record'])} records per second"
    rows = [
        ["one core, processor time", rate, "300 records per second"],
        ["two worker processes, elapsed time", f"{found['two_workers']:.1f} times one", "1.8 times one"],
        ["Ray, two nodes on this machine, elapsed time", ray, "1.5 times one process"],
        [
            "handing a record to a worker and writing it, in the main process, processor time",
            f"{number(found['hand_over_us'])} µs",
            "",
        ],
        [f"memory of a worker, after {records} records", sizes, "300 MB"],
    ]
    return table("| >measured | >goal", rows)


def _of(found: Numbers, *path: str) -> Any:
    """Return a number; None if it was not measured."""
    at: Any = found
    for key in path:
        if not isinstance(at, Mapping) or key not in at:
            return None
        at = at[key]
    return at
