"""What a lore book loses when it is written for the other program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from tavernkit.values import JsonObject, is_mapping, is_sequence

_KEPT_BY_RISU_AI = frozenset({"key", "comment", "content", "constant", "order", "addMemo", "selective"})
"""Fields of a world's entries that RisuAI's import takes, or that only SillyTavern's editor looks at."""

_SHOWN = 3


def losses(book: JsonObject, *, to_risu_ai: bool) -> list[str]:
    """Say what the other program's import of a book leaves out: a line for each setting, with the entries it is of."""
    entries, data = book.get("entries"), book.get("data")
    if to_risu_ai and is_mapping(entries):
        found = _by_setting(entries.values(), _lost_for_risu_ai)
    elif not to_risu_ai and book.get("type") == "risu" and is_sequence(data):
        found = _by_setting(data, _lost_for_silly_tavern)
    else:
        return []
    return [f"{setting} is lost: {_listed(titles)}" for setting, titles in found.items()]


def _lost_for_risu_ai(entry: Mapping[str, object]) -> Iterator[str]:
    from tavernkit.silly_tavern.world_info.entry import TEMPLATE

    for name, default in TEMPLATE.items():
        value = entry.get(name, default)
        if name not in _KEPT_BY_RISU_AI and value != default and (value or default):
            yield name


def _lost_for_silly_tavern(entry: Mapping[str, object]) -> Iterator[str]:
    yield from (name for name in ("useRegex", "folder") if entry.get(name))
    if entry.get("mode", "normal") != "normal":
        yield f"mode {entry.get('mode')}"
    if any(line.startswith("@@") for line in str(entry.get("content", "")).splitlines()):
        yield "the meaning of @@decorators, which stay in the text,"


def _by_setting(
    entries: Iterable[object], lost: Callable[[Mapping[str, object]], Iterator[str]]
) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for number, entry in enumerate(entries):
        if is_mapping(entry):
            for setting in lost(entry):
                found.setdefault(setting, []).append(str(entry.get("comment") or number))
    return found


def _listed(titles: list[str]) -> str:
    shown = ", ".join(repr(title) for title in titles[:_SHOWN])
    more = len(titles) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
