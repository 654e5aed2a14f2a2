"""The hash by which SillyTavern finds the entry of a stored timed effect again."""

from __future__ import annotations

from tavernkit.errors import ConfigError
from tavernkit.silly_tavern.macros.string_hash import string_hash
from tavernkit.silly_tavern.world_info.entry import Entry
from tavernkit.text.js_values import json_stringify, own_keys
from tavernkit.values import Json


def hashed_json(entry: Entry) -> str:
    """The text that is hashed: the whole entry, with its book's name and without its decorators in the content."""
    raw = entry.raw
    fields: dict[str, Json] = {}
    if "uid" in raw:
        fields["uid"] = raw["uid"]
    fields["world"] = raw.get("world", entry.world)
    fields.update((name, raw[name]) for name in own_keys(raw) if name not in fields)
    fields["decorators"] = list(entry.decorators)
    if "content" in fields:
        fields["content"] = entry.content
    else:
        # The program adds the two in the other order when the file has no content.
        fields = {**fields, "content": entry.content}
    return json_stringify(fields)


def entry_hash(entry: Entry) -> int:
    """Hash an entry. Any change of any field gives another hash, so a stored effect no longer finds it."""
    try:
        return string_hash(hashed_json(entry))
    except ConfigError:
        # Nested deeper than JSON can be written: such an entry is known by its name alone.
        return string_hash(entry.identity)
