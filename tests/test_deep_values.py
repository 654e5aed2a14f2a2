"""Values in memory may be nested deeper than any file: they are read, or refused as such a file would be."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tavernkit import cards, risu_ai, silly_tavern
from tavernkit.errors import LimitExceededError, TavernKitError

DEEP = 1_000
KEYS = ("spec", "name", "extensions", "content", "power_user", "header", "key", "world_info_depth")
LISTS = ("entries", "prompts", "swipes", "promptTemplate")


def nested(kind: type) -> object:
    value: object = "bottom"
    for _ in range(DEEP):
        value = {"in": value} if kind is dict else [value]
    return value


def readers() -> Iterator[tuple[str, Any]]:
    for package in (cards, silly_tavern, risu_ai):
        for name in package.__all__:
            for method in ("from_json", "from_card"):
                read = getattr(getattr(package, name), method, None)
                if read is not None:
                    yield f"{package.__name__}.{name}.{method}", read


READERS = dict(readers())


def test_there_are_readers() -> None:
    assert {"tavernkit.cards.Character.from_card", "tavernkit.silly_tavern.Preset.from_json"} <= READERS.keys()
    assert "tavernkit.risu_ai.Preset.from_json" in READERS


@pytest.mark.parametrize("kind", [dict, list])
@pytest.mark.parametrize("name", READERS)
def test_deep_values_are_read_or_refused(name: str, kind: type) -> None:
    read, deep = READERS[name], nested(kind)
    parameters = inspect.signature(read).parameters
    wanted = {"name": "book", "warn": lambda _message: None, "where": ""}
    data = dict.fromkeys(KEYS, deep) | {key: [{"data": deep}, deep] for key in LISTS}
    if name.endswith("from_card"):
        data = {"spec": deep, "spec_version": deep, "data": {**data, "name": "Aria"}}
    with suppress(TavernKitError):
        read(data, **{key: value for key, value in wanted.items() if key in parameters})


def test_a_card_too_deep_to_be_written_is_refused(tmp_path: Path) -> None:
    character = cards.Character.from_card(
        {"spec": "chara_card_v2", "spec_version": "2.0", "data": {"name": "Aria", "extensions": {"x": nested(list)}}}
    )
    with pytest.raises(LimitExceededError, match="nested too deeply"):
        cards.save(character, tmp_path / "aria.json")
    assert not list(tmp_path.iterdir())
