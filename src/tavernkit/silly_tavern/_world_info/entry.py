"""One World Info entry: SillyTavern's own JSON, read as in its scan, its keys, and what the editor does to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

from tavernkit._text.js_regex import JSRegex, JSRegexSyntaxError
from tavernkit._text.js_values import (
    UNDEFINED,
    WHITESPACE,
    Undefined,
    is_index_key,
    js_lower,
    json_stringify,
    own_keys,
    to_string,
    trim,
    truthy,
)
from tavernkit._text.js_values.strings import occurrences
from tavernkit._values import Json, JsonObject, is_list, is_mapping, is_object, thaw, thaw_object
from tavernkit.errors import ConfigError
from tavernkit.lore._key_index import stands_alone
from tavernkit.silly_tavern._macros.seeding import string_hash
from tavernkit.silly_tavern._world_info.fields import (
    Field,
    character_filter,
    is_true,
    level,
    number,
    optional_flag,
    optional_number,
    parse_decorators,
    property_name,
    text,
    texts,
    triggers,
    verbatim,
)

TITLE_KEYS = 3

TEMPLATE: Mapping[str, Json] = {
    "key": [],
    "keysecondary": [],
    "comment": "",
    "content": "",
    "constant": False,
    "vectorized": False,
    "selective": True,
    "selectiveLogic": 0,
    "addMemo": False,
    "order": 100,
    "position": 0,
    "disable": False,
    "ignoreBudget": False,
    "excludeRecursion": False,
    "preventRecursion": False,
    "matchPersonaDescription": False,
    "matchCharacterDescription": False,
    "matchCharacterPersonality": False,
    "matchCharacterDepthPrompt": False,
    "matchScenario": False,
    "matchCreatorNotes": False,
    "delayUntilRecursion": 0,
    "probability": 100,
    "useProbability": True,
    "depth": 4,
    "outletName": "",
    "group": "",
    "groupOverride": False,
    "groupWeight": 100,
    "scanDepth": None,
    "caseSensitive": None,
    "matchWholeWords": None,
    "useGroupScoring": None,
    "automationId": "",
    "role": 0,
    "sticky": None,
    "cooldown": None,
    "delay": None,
    "triggers": [],
}
"""The fields of a new entry, in the order of the editor."""

SOURCE_FIELDS = (
    "matchPersonaDescription",
    "matchCharacterDescription",
    "matchCharacterPersonality",
    "matchCharacterDepthPrompt",
    "matchScenario",
    "matchCreatorNotes",
)
"""The switches that make an entry scan more than the chat, in the order in which the texts are joined."""


class Entry:
    """An entry of a book, or an entry-like object that was forced.

    ``raw`` is the JSON object itself, read only, and ``world`` the name of its book. The attributes are the fields as
    the scan reads them, whatever their type in the file; missing fields are not filled in, as in SillyTavern (missing
    ``probability``: every roll fails). ``content`` comes without decorators.

    Args:
        raw: The entry's JSON object.
        world: The name of its book, unless the object names one.
        decorated: Parse the decorators at the start of the content.
    """

    def __init__(self, raw: JsonObject, world: str, *, decorated: bool = True) -> None:
        self.raw = raw
        self.world = to_string(raw["world"]) if "world" in raw else world
        content = text(raw.get("content"))
        # Decorators of forced objects were already parsed, if at all, by the program that made them.
        self.decorators, self.content = parse_decorators(content) if decorated else ((), content)

    uid = Field("uid", verbatim)
    keys = Field("key", texts)
    secondary_keys = Field("keysecondary", texts)
    comment = Field("comment", text)
    constant = Field("constant", truthy)
    vectorized = Field("vectorized", truthy)
    selective = Field("selective", truthy)
    selective_logic = Field("selectiveLogic", verbatim)
    order = Field("order", number)
    position = Field("position", verbatim)
    add_memo = Field("addMemo", truthy)
    display_index = Field("displayIndex", verbatim)
    extensions = Field("extensions", verbatim)
    match_persona_description = Field("matchPersonaDescription", truthy)
    match_character_description = Field("matchCharacterDescription", truthy)
    match_character_personality = Field("matchCharacterPersonality", truthy)
    match_character_depth_prompt = Field("matchCharacterDepthPrompt", truthy)
    match_scenario = Field("matchScenario", truthy)
    match_creator_notes = Field("matchCreatorNotes", truthy)
    disabled = Field("disable", is_true)
    ignore_budget = Field("ignoreBudget", truthy)
    exclude_recursion = Field("excludeRecursion", truthy)
    prevent_recursion = Field("preventRecursion", truthy)
    delay_until_recursion = Field("delayUntilRecursion", level)
    probability = Field("probability", verbatim)
    use_probability = Field("useProbability", truthy)
    depth = Field("depth", verbatim)
    outlet_name = Field("outletName", property_name)
    group = Field("group", text)
    group_override = Field("groupOverride", truthy)
    group_weight = Field("groupWeight", verbatim)
    scan_depth = Field("scanDepth", optional_number)
    case_sensitive = Field("caseSensitive", optional_flag)
    match_whole_words = Field("matchWholeWords", optional_flag)
    use_group_scoring = Field("useGroupScoring", optional_flag)
    automation_id = Field("automationId", text)
    role = Field("role", verbatim)
    sticky = Field("sticky", verbatim)
    cooldown = Field("cooldown", verbatim)
    delay = Field("delay", verbatim)
    triggers = Field("triggers", triggers)
    character_filter = Field("characterFilter", character_filter)

    @cached_property
    def identity(self) -> str:
        """The entry's id for activation and timed effects: ``book.uid``."""
        return f"{self.world}.{to_string(self.uid)}"

    @property
    def title(self) -> str:
        """What people call it: its comment, else its first keys, else its identity."""
        return self.comment or ", ".join(self.keys[:TITLE_KEYS]) or self.identity

    @property
    def book(self) -> str:
        """The name of its book."""
        return self.world

    @cached_property
    def restricted(self) -> bool:
        """True if any rule except cooldown could keep it out before its keys are checked."""
        wanted = self.character_filter
        return bool(
            self.disabled
            or self.triggers
            or wanted.names
            or wanted.tags
            or truthy(self.delay)
            or truthy(self.delay_until_recursion)
            or self.exclude_recursion
            or self.decorators
        )

    @cached_property
    def sources(self) -> int:
        """Which texts besides the chat it scans: a bit for each of ``SOURCE_FIELDS``."""
        raw = self.raw
        return sum(1 << bit for bit, name in enumerate(SOURCE_FIELDS) if truthy(raw.get(name, UNDEFINED)))

    def to_json(self) -> JsonObject:
        """Return a copy of the JSON object, with all original fields."""
        return thaw_object(self.raw)

    def __repr__(self) -> str:
        return f"Entry({self.identity!r}, {self.comment!r})"


def template_entry(fields: Mapping[str, Json | Undefined]) -> JsonObject:
    """Return a copy of the template with some fields changed; undefined fields are left out."""
    merged = {**TEMPLATE, **fields}
    return {name: thaw(value) for name, value in merged.items() if value is not UNDEFINED}


def problem_with(raw: object) -> str | None:
    """Return why an entry cannot be used, if so. An invalid entry is left out; it never stops a scan."""
    if not is_mapping(raw):
        return f"an entry must be an object, not {type(raw).__name__}"
    content = raw.get("content")
    if not isinstance(content, str) and content:
        return f"its content must be text, not {type(content).__name__}"
    for name in ("key", "keysecondary"):
        keys = raw.get(name)
        if keys and is_list(keys) and not all(map(str.__instancecheck__, keys)):
            return f"its {name} must be a list of texts"
    return None


def hashed_json(entry: Entry) -> str:
    """Return the text that is hashed: the whole entry, with its book's name and without decorators in the content."""
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
        # Too deeply nested for JSON: such an entry is identified by its name only.
        return string_hash(entry.identity)


_REGEX_KEY = re.compile(r"/([\s\S]+?)/([gimsuy]*)")
_BARE_SLASH = re.compile(r"(?:^|[^\\])/")
_MAY_HOLD_MACRO = re.compile(r"[{<\x00]|\\\}")
_BLANK = re.compile(f"[{WHITESPACE}]")


def parse_regex_key(key: str) -> JSRegex | None:
    """Read a key ``/pattern/flags``; one that is not a valid regular expression is plain text, slashes included."""
    if not key.startswith("/"):
        return None
    found = _REGEX_KEY.fullmatch(key)
    if found is None or _BARE_SLASH.search(found[1]):
        return None
    try:
        # SillyTavern unescapes only the first slash. Keys with the flag y hardly ever match: a separator comes first.
        return JSRegex.compile(found[1].replace("\\/", "/", 1), found[2])
    except JSRegexSyntaxError:
        return None


def may_hold_macro(key: str) -> bool:
    """Return True if macro substitution could change a key; others never need to be substituted."""
    return _MAY_HOLD_MACRO.search(key) is not None


def is_one_word(key: str) -> bool:
    """Return True if a key contains no white space; others match inside of words, whatever the settings say."""
    return _BLANK.search(key) is None


def find_plain(key: str, text: str, *, whole_word: bool) -> int:
    """Find a plain key in a text of the same case; return its offset or -1."""
    if not whole_word or not is_one_word(key):
        return text.find(key)
    # As ``\W`` does, this treats é, 日 and emoji as spaces: only ASCII letters and digits make words.
    places = occurrences(text, key)
    return next((at for at in places if stands_alone(text, at, at + len(key))), -1)


def fold(text: str, *, case_sensitive: bool) -> str:
    """Convert a key or text to the case for comparison."""
    return text if case_sensitive else js_lower(text)


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
    # The second slash closes the expression; any more of them mean nothing.
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
