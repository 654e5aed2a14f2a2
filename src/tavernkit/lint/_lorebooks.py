"""RisuAI's lorebooks: decorators that do nothing, keys that can never match, entries that cannot fire, cost."""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tavernkit._text.js_values import parse_int
from tavernkit._values import is_mapping, is_sequence
from tavernkit.cards._requirements import Severity
from tavernkit.lint._finding import Finding
from tavernkit.lint._scripts import lint_regex
from tavernkit.lint._texts import lint_text

if TYPE_CHECKING:
    from tavernkit.risu_ai._lorebook import LorebookEntry
    from tavernkit.risu_ai._lorebook.entry import Decorator

DEFAULT_LORE_BUDGET = 2048

PLACES = ("before_desc", "after_desc", "personality", "scenario")
"""Where ``@@position`` can put an entry, besides a point of the preset (``pt_name``)."""

_ROLES = ("system", "user", "assistant")
_PROMPTS = ("post_history_instructions", "system_prompt")


def _number(arguments: Sequence[str]) -> str | None:
    return None if arguments and not math.isnan(parse_int(arguments[0])) else "a number"


def _place(arguments: Sequence[str]) -> str | None:
    fits = bool(arguments) and (arguments[0] in PLACES or arguments[0].startswith("pt_"))
    return None if fits else f"a place: {', '.join(PLACES)} or pt_ followed by the name of a point"


def _one_of(known: Sequence[str]) -> Callable[[Sequence[str]], str | None]:
    return lambda arguments: None if arguments and arguments[0] in known else f"one of {', '.join(known)}"


def _some(arguments: Sequence[str]) -> str | None:
    return None if arguments else "at least one key"


def _anything(_arguments: Sequence[str]) -> str | None:
    return None


DECORATORS: Mapping[str, Callable[[Sequence[str]], str | None]] = {
    **dict.fromkeys(("depth", "reverse_depth", "scan_depth", "probability", "priority", "is_greeting"), _number),
    **dict.fromkeys(("activate_only_after", "activate_only_every"), _number),
    **dict.fromkeys(("additional_keys", "exclude_keys", "exclude_keys_all"), _some),
    "position": _place,
    "role": _one_of(_ROLES),
    "disable_ui_prompt": _one_of(_PROMPTS),
    **dict.fromkeys(("inject_lore", "inject_at", "inject_replace", "inject_prepend"), _anything),
    **dict.fromkeys(("end", "activate", "dont_activate", "ignore_on_max_context"), _anything),
    **dict.fromkeys(("keep_activate_after_match", "dont_activate_after_match"), _anything),
    **dict.fromkeys(("match_full_word", "match_partial_word"), _anything),
    **dict.fromkeys(("recursive", "unrecursive", "no_recursive_search"), _anything),
}
"""The decorators that RisuAI knows, and the checks of their arguments."""


def lint_lorebook(entries: object, where: str = "", *, budget: int = DEFAULT_LORE_BUDGET) -> Iterator[Finding]:
    """Check the entries of a RisuAI lorebook.

    Args:
        entries: The parsed list.
        where: A JSON pointer to it, for the findings.
        budget: Token budget of the lore.
    """
    from tavernkit.risu_ai._lorebook import LorebookEntry

    usable: list[tuple[str, LorebookEntry]] = []
    for index, raw in enumerate(entries if is_sequence(entries) else ()):
        place = f"{where}/{index}"
        entry = LorebookEntry.from_json(raw) if is_mapping(raw) else None
        if entry is None:
            yield _finding(place, "is left out: it is not an object", Severity.ERROR, "UNUSABLE_ENTRY")
        elif entry.mode != "folder":
            usable.append((place, entry))
            yield from (replace(each, entry=entry.title) for each in _entry(entry, place))
    yield from _cost(usable, where, budget)


def _entry(entry: LorebookEntry, place: str) -> Iterator[Finding]:
    from tavernkit.risu_ai._lorebook.entry import parse_content

    parsed = parse_content(entry.content)
    forced = any(each.name == "activate" for each in parsed.decorators)
    if not entry.reachable and not forced:
        yield _finding(place, "has no key and is not always active: it can never fire", Severity.WARNING, "NEVER_FIRES")
    if any(each.name == "dont_activate" for each in parsed.decorators):
        yield _finding(place, "has @@dont_activate: it can never fire", Severity.WARNING, "NEVER_FIRES")
    if entry.selective and not entry.secondary_key.strip() and not entry.always_active:
        yield _finding(place, "is selective but has no secondary key", Severity.INFO, "NO_SECONDARY")
    for key, count in Counter(entry.keys).items():
        if count > 1:
            yield _finding(place, f"has the key {key!r} {count} times", Severity.INFO, "DUPLICATE_KEY")
    if entry.use_regex:
        for key in entry.keys:
            yield from _regex_key(key, f"{place}/key")
    for decorator in parsed.decorators:
        yield from _decorator(decorator, f"{place}/content")
    yield from lint_text(entry.content, f"{place}/content", "risu_ai")


def _decorator(decorator: Decorator, place: str) -> Iterator[Finding]:
    name = decorator.name
    if not name:
        return
    wrong = DECORATORS.get(name)
    if wrong is None:
        near = difflib.get_close_matches(name, DECORATORS, n=1)
        hint = f"did you mean @@{near[0]}?" if near else ""
        message = f"@@{name} is not known to RisuAI: it does nothing"
        yield _finding(place, message, Severity.WARNING, "UNKNOWN_DECORATOR", hint=hint)
        return
    wanted = wrong(decorator.arguments)
    if wanted is not None:
        given = f"@@{name} {decorator.joined}".rstrip()
        # Without a position RisuAI drops the whole lorebook; other mistakes make the decorator do nothing.
        severity = Severity.ERROR if name == "position" and not decorator.arguments else Severity.WARNING
        yield _finding(place, f"{given} needs {wanted}", severity, "BAD_DECORATOR")


def _regex_key(key: str, place: str) -> Iterator[Finding]:
    """Check a regex key as RisuAI reads it: the leading slash stays part of the pattern."""
    if not key.startswith("/"):
        message = f"key {key!r} is not a regular expression, so the entry never matches"
        yield _finding(place, message, Severity.WARNING, "BAD_REGEX_KEY", hint="write it as /pattern/flags")
        return
    flags = key[key.rfind("/") + 1 :]
    if not flags:
        message = f"key {key!r} has no flags and never matches"
        yield _finding(place, message, Severity.WARNING, "NEVER_MATCHES", hint="add a flag, such as i")
        return
    pattern = key.replace("/" + flags, "", 1)
    needs_slash = pattern[1:2] not in ("?", "*", "{") and "|" not in pattern
    found = [*lint_regex(pattern.removeprefix("/") if needs_slash else pattern, flags, place)]
    yield from found
    if needs_slash and not any(each.code == "BAD_REGEX" for each in found):
        message = f"key {key!r} only matches texts with a slash in them: RisuAI keeps the first slash"
        hint = f"write {_without_slash(pattern, flags)} to match without it"
        yield _finding(place, message, Severity.WARNING, "NEVER_MATCHES", hint=hint)


def _without_slash(pattern: str, flags: str) -> str:
    """Return a key that matches what was meant, with or without the leading slash."""
    return f"/?(?:{pattern[1:]})/{flags}"


def _cost(entries: Sequence[tuple[str, LorebookEntry]], where: str, budget: int) -> Iterator[Finding]:
    """Find entries that never fit into the token budget."""
    from tavernkit.budget import count_tokens

    used = 0
    for place, entry in entries:
        tokens = count_tokens(entry.content)
        if tokens > budget:
            message = f"needs {tokens} tokens, more than the whole lore budget of {budget}"
            yield replace(_finding(place, message, Severity.WARNING, "OVER_BUDGET"), entry=entry.title)
        used += tokens if entry.always_active else 0
    if used >= budget:
        message = f"entries that are always active use {used} tokens of a budget of {budget}: no other entry fits"
        yield _finding(where or "/", message, Severity.WARNING, "BUDGET_STARVATION")


def _finding(where: str, message: str, severity: Severity, code: str, *, hint: str = "") -> Finding:
    return Finding(where=where, message=message, severity=severity, code=code, hint=hint)
