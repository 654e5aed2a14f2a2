"""RisuAI's lorebook on the shared lore workload."""

from __future__ import annotations

import dataclasses

from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks import workloads
from tavernkit.risu_ai._lorebook import LorebookEngine, LorebookEntry, LorebookSettings, LoreMessage, ScanInput


def entries(count: int) -> tuple[list[LorebookEntry], ScanInput]:
    data = workloads.lore(count)
    found = [
        LorebookEntry(key=", ".join(each["key"]), order=each["order"], comment=each["comment"], content=each["content"])
        for each in data["book"]["entries"].values()
    ]
    messages = [LoreMessage("user" if each["is_user"] else "char", each["mes"]) for each in data["chat"]]
    settings = LorebookSettings(scan_depth=100, token_budget=100_000)
    return found, ScanInput(messages=messages, settings=settings)


def test_compile_10000_entries(benchmark: BenchmarkFixture) -> None:
    found, _ = entries(10_000)
    benchmark(LorebookEngine().compile, found)


def test_scan_10000_entries(benchmark: BenchmarkFixture) -> None:
    found, given = entries(10_000)
    engine = LorebookEngine()
    given = dataclasses.replace(given, entries=engine.compile(found))
    assert benchmark(engine.scan, given).actives
