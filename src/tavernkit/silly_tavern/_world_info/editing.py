"""What SillyTavern's editor does to books: new and copied entries, missing fields, typed keys."""

from __future__ import annotations

from tavernkit._text.js_values import is_index_key, trim
from tavernkit._values import JsonObject, is_list, is_object, thaw
from tavernkit.silly_tavern._world_info.entry import TEMPLATE, template_entry
from tavernkit.silly_tavern._world_info.keys import parse_regex_key


def new_entry(world: JsonObject) -> JsonObject:
    """Make a template entry with the lowest uid that is not a key of the world's map, and add it to the world."""
    entries = world.get("entries")
    uid = len(entries) if is_list(entries) else 0
    while is_object(entries) and str(uid) in entries:
        uid += 1
    entry: JsonObject = {"uid": uid, **template_entry({})}
    if is_list(entries):
        entries.append(entry)
    elif is_object(entries):
        entries[str(uid)] = entry
    else:
        world["entries"] = {str(uid): entry}
    return entry


def duplicate_entry(world: JsonObject, key: str) -> JsonObject | None:
    """Copy the entry under a map key to a new one with a free uid; None for an unknown key."""
    entries = world.get("entries")
    source = entries.get(key) if is_object(entries) else None
    if is_list(entries) and is_index_key(key) and int(key) < len(entries):
        source = entries[int(key)]
    if not is_object(source):
        return None
    entry = new_entry(world)
    entry.update({name: thaw(value) for name, value in source.items() if name != "uid"})
    return entry


def add_missing_fields(entry: JsonObject) -> None:
    """Fill in missing fields of an entry from the template, as the editor does when it shows it. Null stays null."""
    for name, value in TEMPLATE.items():
        if name not in entry:
            entry[name] = thaw(value)
    for name in ("key", "keysecondary"):
        if not is_list(entry[name]):
            entry[name] = []
    if not is_object(entry.get("characterFilter")):
        entry["characterFilter"] = {"isExclude": False, "names": [], "tags": []}


def split_keys(text: str) -> list[str]:
    """Split keys that a person typed, separated by commas; commas inside a ``/regex/`` belong to it."""
    keys: list[str] = []
    begin = start = 0
    while (comma := _end_of_key(text, start)) is not None:
        keys.extend(_typed_keys(trim(text[begin:comma])))
        # The editor continues at the second character of the rest, so it misses a slash or comma at its start.
        begin, start = comma + 1, comma + 2
    return [*keys, *filter(None, [trim(text[begin:])])]


def _end_of_key(text: str, start: int) -> int | None:
    slashes = 0
    for index in range(start, len(text)):
        if text[index] == "/" and text[index - 1 : index] != "\\":
            slashes += 1
        elif text[index] == "," and slashes != 1:
            return index
    return None


def _typed_keys(token: str) -> list[str]:
    if token.startswith("/") and parse_regex_key(token) is None:
        return [part for part in map(trim, token.split(",")) if part]
    return [token] if token else []
