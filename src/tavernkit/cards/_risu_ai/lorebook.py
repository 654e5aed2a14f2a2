"""Character books as RisuAI's lore entries, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import join, to_string, trim, truthy
from tavernkit._values import EMPTY_OBJECT, Json, JsonObject, is_mapping, is_sequence, thaw, thaw_object
from tavernkit.cards._book import CharacterBook

_ROLES: Mapping[float, str] = {0: "system", 1: "user", 2: "assistant"}
_SECONDARY_DECORATORS = {2: "@@exclude_keys", 3: "@@additional_keys"}


@dataclass(frozen=True, slots=True)
class RisuLore:
    """A character book as RisuAI imports it."""

    lorebook: list[Json]
    settings: JsonObject | None
    """RisuAI's ``loreSettings``; only if the book sets all three."""
    extensions: Json


def convert_character_book(book: Mapping[str, object]) -> RisuLore:
    """Convert a card's ``character_book`` as RisuAI does on import."""
    entries = book.get("entries")
    stated = [book.get(key) for key in ("token_budget", "scan_depth", "recursive_scanning")]
    extensions = book.get("extensions")
    settings: JsonObject | None = None
    if all(value is not None for value in stated):
        full_word = extensions.get("risu_fullWordMatching") if is_mapping(extensions) else None
        settings = {
            "tokenBudget": thaw(stated[0]),
            "scanDepth": thaw(stated[1]),
            "recursiveScanning": thaw(stated[2]),
            "fullWordMatching": False if full_word is None else thaw(full_word),
        }
    items = entries if is_sequence(entries) else ()
    return RisuLore([_entry(item) for item in items if is_mapping(item)], settings, thaw(extensions))


def lorebook_from_book(book: CharacterBook) -> list[JsonObject]:
    """Convert a book to RisuAI's lore entries."""
    return [item for item in convert_character_book(book.to_json()).lorebook if isinstance(item, dict)]


def _entry(entry: Mapping[str, object]) -> JsonObject:
    stated = entry.get("extensions")
    extensions = thaw_object(stated if is_mapping(stated) else EMPTY_OBJECT)
    keys = _items(entry.get("keys"))
    secondary = _items(entry.get("secondary_keys"))
    decorators, selective = _take_decorators(extensions, secondary, entry.get("selective"))
    content = "\n".join((*decorators, to_string(entry.get("content", ""))))
    if truthy(entry.get("case_sensitive")):
        extensions["risu_case_sensitive"] = thaw(entry["case_sensitive"])
    cache = extensions.pop("risu_loreCache", None)
    percent = extensions.pop("risu_activationPercent", None)
    use_regex = truthy(entry.get("use_regex")) and bool(keys) and to_string(keys[0]).startswith("/")
    converted: JsonObject = {
        "key": join(keys, ", "),
        "secondkey": join(secondary, ", "),
        "insertorder": thaw(entry.get("insertion_order")),
        "comment": _first_present(entry.get("name"), entry.get("comment"), ""),
        "content": content,
        "mode": _first_present(entry.get("mode"), "normal"),
        "alwaysActive": _first_present(entry.get("constant"), False),
        "selective": selective,
        "extentions": extensions,
        "loreCache": cache,
        "useRegex": use_regex,
    }
    if percent is not None:
        converted["activationPercent"] = percent
    if entry.get("folder") is not None:
        converted["folder"] = thaw(entry["folder"])
    return converted


def _take_decorators(extensions: JsonObject, secondary: Sequence[object], selective: object) -> tuple[list[str], Json]:
    """Convert SillyTavern's extensions to decorator lines, the latest first, and remove them from the extensions."""
    lines: list[str] = []
    kept_selective: Json = False if selective is None else thaw(selective)
    probability = extensions.get("probability")
    if truthy(extensions.get("useProbability")) and probability is not None and probability != 100:
        lines = [f"@@probability {to_string(probability)}"]
        del extensions["useProbability"], extensions["probability"]
    depth, role = extensions.get("depth"), extensions.get("role")
    if extensions.get("position") == 4 and _is_number(depth) and isinstance(role, (int, float)):
        lines = [f"@@depth {to_string(depth)}", f"@@role {_ROLES.get(role, 'system')}", *lines]
        del extensions["position"], extensions["depth"], extensions["role"]
    logic = extensions.get("selectiveLogic")
    if secondary and logic in (1, 2, 3) and not isinstance(logic, bool):
        kept_selective = False
        if logic == 1:
            lines = [f"@@exclude_keys_all {join(secondary, ',')}", *lines]
        else:
            name = _SECONDARY_DECORATORS[2 if logic == 2 else 3]
            lines = [*(f"{name} {to_string(key)}" for key in reversed(secondary)), *lines]
    delay = extensions.get("delay")
    if isinstance(delay, (int, float)) and not isinstance(delay, bool) and delay > 0:
        lines = [f"@@activate_only_after {to_string(delay)}", *lines]
        del extensions["delay"]
    whole_words = extensions.get("match_whole_words")
    if isinstance(whole_words, bool):
        lines = ["@@match_full_word" if whole_words else "@@match_partial_word", *lines]
        del extensions["match_whole_words"]
    return lines, kept_selective


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _items(value: object) -> Sequence[object]:
    return value if is_sequence(value) else ()


def _first_present(*values: object) -> Json:
    return thaw(next((value for value in values if value is not None), None))


def book_from_lorebook(
    lorebook: Sequence[Mapping[str, object]], settings: Mapping[str, object] | None, extensions: object
) -> JsonObject:
    """Make a ``character_book`` from RisuAI's lore entries, as its exporter does."""
    stated = settings if settings is not None else EMPTY_OBJECT
    merged: JsonObject = thaw_object(extensions) if is_mapping(extensions) else {}
    merged["risu_fullWordMatching"] = thaw(stated.get("fullWordMatching")) or False
    book: JsonObject = {}
    for key, name in (
        ("scan_depth", "scanDepth"),
        ("token_budget", "tokenBudget"),
        ("recursive_scanning", "recursiveScanning"),
    ):
        if stated.get(name) is not None:
            book[key] = thaw(stated[name])
    book["extensions"] = merged
    book["entries"] = [_book_entry(entry) for entry in lorebook]
    return book


def _book_entry(lore: Mapping[str, object]) -> JsonObject:
    stated = lore.get("extentions")
    extensions = thaw_object(stated) if is_mapping(stated) else {}
    case_sensitive = extensions.pop("risu_case_sensitive", False)
    if lore.get("loreCache") is not None:
        extensions["risu_loreCache"] = thaw(lore["loreCache"])
    entry: JsonObject = {
        "keys": _split(lore.get("key")),
        "content": thaw(lore.get("content")),
        "extensions": extensions,
        "enabled": True,
        "insertion_order": thaw(lore.get("insertorder")),
        "constant": thaw(lore.get("alwaysActive")),
        "selective": thaw(lore.get("selective")),
        "name": thaw(lore.get("comment")),
        "comment": thaw(lore.get("comment")),
        "case_sensitive": case_sensitive,
        "use_regex": _first_present(lore.get("useRegex"), False),
        "mode": thaw(lore.get("mode")),
    }
    if truthy(lore.get("selective")):
        entry["secondary_keys"] = _split(lore.get("secondkey"))
    if lore.get("folder") is not None:
        entry["folder"] = thaw(lore["folder"])
    return {key: value for key, value in entry.items() if value is not None}


def _split(keys: object) -> list[Json]:
    return [trim(key) for key in to_string(keys).split(",")] if isinstance(keys, str) else []
