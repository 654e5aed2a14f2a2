"""What RisuAI does with a database when it starts, and with a character when it is opened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from tavernkit._text.js_values import trim, truthy
from tavernkit._values import Json, JsonObject, thaw
from tavernkit.errors import Warn
from tavernkit.risu_ai._files.database_codec import BUILT_IN_PRESET
from tavernkit.risu_ai._files.message_pack import Packed
from tavernkit.risu_ai._files.preset import DEFAULT_MODEL, DEFAULT_ORDER, with_persona_prompt
from tavernkit.risu_ai._files.settings import BuiltInTexts
from tavernkit.risu_ai._lorebook.book import migrate_entries
from tavernkit.risu_ai._objects import made_id
from tavernkit.risu_ai._requests.reformat import DEFAULT_SYSTEM_CONTENT

Stored: TypeAlias = dict[str, Packed]
"""An object of the database."""

TRASH_MILLISECONDS = 3 * 24 * 60 * 60 * 1000
"""How long a deleted character is kept."""

FORMAT_VERSION = 5
LORE_TOKENS = 8000
"""The budget for lore that databases before version 5 are raised to."""

_DEFAULTS: JsonObject = {
    "characters": [],
    "globalNote": "",
    "maxContext": 4000,
    "maxResponse": 500,
    "temperature": 80,
    "frequencyPenalty": 70,
    "PresensePenalty": 70,
    "aiModel": DEFAULT_MODEL,
    "subModel": DEFAULT_MODEL,
    "jailbreakToggle": False,
    "formatingOrder": [*DEFAULT_ORDER],
    "loreBookDepth": 5,
    "loreBookToken": 800,
    "username": "User",
    "userIcon": "",
    "userNote": "",
    "botPresetsId": 0,
    "useSayNothing": True,
    "bias": [],
    "supaModelType": "none",
    "supaMemoryPrompt": "",
    "hypaModel": "MiniLM",
    "hypaAllocatedTokens": 3000,
    "hypaChunkSize": 3000,
    "maxSupaChunkSize": 1200,
    "hypaV3PresetId": 0,
    "selectedPersona": 0,
    "personaPrompt": "",
    "presetRegex": [],
    "globalscript": [],
    "modules": [],
    "enabledModules": [],
    "customPromptTemplateToggle": "",
    "globalChatVariables": {},
    "templateDefaultVariables": "",
    "groupOtherBotRole": "user",
    "systemContentReplacement": DEFAULT_SYSTEM_CONTENT,
    "systemRoleReplacement": "user",
    "useInstructPrompt": False,
    "instructChatTemplate": "chatml",
    "customTokenizer": "tik",
    "customFlags": [],
    "enableCustomFlags": False,
    "customBackground": "",
    "characterOrder": [],
    "promptSettings": {
        "assistantPrefill": "",
        "postEndInnerFormat": "",
        "sendChatAsSystem": False,
        "sendName": False,
        "utilOverride": False,
        "customChainOfThought": False,
        "maxThoughtTagDepth": -1,
    },
}
"""Defaults of missing or null keys."""

_HYPA_V3_SETTINGS: JsonObject = {
    "summarizationModel": "subModel",
    "summarizationPrompt": "",
    "reSummarizationPrompt": "",
    "memoryTokensRatio": 0.2,
    "extraSummarizationRatio": 0,
    "maxChatsPerSummary": 6,
    "recentMemoryRatio": 0.4,
    "similarMemoryRatio": 0.4,
    "enableSimilarityCorrection": False,
    "preserveOrphanedMemory": False,
    "processRegexScript": False,
    "doNotSummarizeUserMessage": False,
    "useExperimentalImpl": False,
    "summarizationRequestsPerMinute": 20,
    "summarizationMaxConcurrent": 1,
    "embeddingRequestsPerMinute": 100,
    "embeddingMaxConcurrent": 1,
    "alwaysToggleOn": False,
}

_CHARACTER_DEFAULTS: JsonObject = {
    "type": "character",
    "chatPage": 0,
    "chats": [],
    "customscript": [],
    "firstMessage": "",
    "globalLore": [],
    "name": "",
    "viewScreen": "none",
    "emotionImages": [],
}
_SINGLE_DEFAULTS: JsonObject = {
    "bias": [],
    "characterVersion": "",
    "creator": "",
    "desc": "",
    "systemPrompt": "",
    "scenario": "",
    "utilityBot": False,
    "tags": [],
}


def start_up(database: Stored, *, now: float, texts: BuiltInTexts, warn: Warn) -> None:
    """Bring a decoded database to the state RisuAI works with, in place.

    Args:
        database: The database as it was decoded.
        now: The time in milliseconds: characters that were deleted three days before are removed.
        texts: Replacements for RisuAI's own texts, if the database has none.
        warn: Called with warnings about unusable data.
    """
    _fill(database, _DEFAULTS)
    _fill_prompts(database, texts)
    characters = _objects(database, "characters", warn)
    modules = _objects(database, "modules", warn)
    _fill_personas(database)
    _fill_memory_presets(database)
    for number, character in enumerate(characters):
        repair_character(character, number)
    for module in modules:
        lore = module.get("lorebook")
        if isinstance(lore, list):
            module["lorebook"] = migrated(lore)
    _upgrade(database, characters)
    characters[:] = [each for each in characters if not _is_old_trash(each, now)]
    _order(database, characters)
    _give_ids(characters)


def _fill(target: Stored, defaults: JsonObject) -> None:
    for key, value in defaults.items():
        if target.get(key) is None:
            target[key] = _copied(value)


def _copied(value: Json) -> Packed:
    return thaw(value)  # pyright: ignore[reportReturnType]  # JSON is part of what a database may hold


def _fill_prompts(database: Stored, texts: BuiltInTexts) -> None:
    prompts: Mapping[str, Packed] = {
        "mainPrompt": texts.main_prompt,
        "jailbreak": texts.jailbreak,
        "additionalPrompt": texts.additional_prompt,
        "descriptionPrefix": texts.description_prefix,
        "autoSuggestPrompt": texts.auto_suggest_prompt,
    }
    for key, text in prompts.items():
        if database.get(key) is None:
            database[key] = text
    top_p = database.get("top_p")
    if isinstance(top_p, bool) or not isinstance(top_p, (int, float)):
        database["top_p"] = 1
    order = database["formatingOrder"]
    if isinstance(order, list):
        database["formatingOrder"] = [*with_persona_prompt([each for each in order if isinstance(each, str)])]
    if not isinstance(presets := database.get("botPresets"), list) or not presets:
        database |= {"botPresets": [dict(BUILT_IN_PRESET)], "botPresetsId": 0}
    pages = database.get("loreBook")
    if not isinstance(pages, list):
        pages = database["loreBook"] = [{"name": "My First LoreBook", "data": []}]
    page = database.get("loreBookPage")
    if not isinstance(page, (int, float)) or page > len(pages):  # RisuAI keeps the page right after the last one
        database["loreBookPage"] = 0


def _fill_personas(database: Stored) -> None:
    personas = database.get("personas")
    if not isinstance(personas, list) or not personas:
        own: Stored = {
            "name": database["username"],
            "personaPrompt": "",
            "icon": database["userIcon"],
            "note": database["userNote"],
            "largePortrait": False,
        }
        personas = database["personas"] = [own]
    for number, persona in enumerate(personas):
        if isinstance(persona, dict) and not persona.get("id"):
            persona["id"] = made_id("persona", number, persona.get("name"))


def _fill_memory_presets(database: Stored) -> None:
    presets = database.get("hypaV3Presets")
    if not isinstance(presets, list) or not presets:
        old = database.get("hypaV3Settings")
        settings: Stored = {"summarizationPrompt": database["supaMemoryPrompt"]}
        presets = database["hypaV3Presets"] = [
            {"name": "Default", "settings": {**settings, **(old if isinstance(old, dict) else {})}}
        ]
    for preset in presets:
        stored = preset.get("settings") if isinstance(preset, dict) else None
        if isinstance(preset, dict):
            preset["settings"] = completed = dict(stored) if isinstance(stored, dict) else {}
            _fill(completed, _HYPA_V3_SETTINGS)


def repair_character(character: Stored, number: int) -> None:
    """Add missing required fields to a character."""
    if not character.get("chaId"):
        character["chaId"] = made_id("character", number, character.get("name"))
    _fill(character, _CHARACTER_DEFAULTS)
    if character["type"] != "group":
        _fill(character, _SINGLE_DEFAULTS)


def _upgrade(database: Stored, characters: Sequence[Stored]) -> None:
    version = database.get("formatversion")
    if not truthy(version):
        for owner, key in _asset_paths(database, characters):
            path = owner[key]  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownVariableType]  # a dict with a name, or a list with a number
            if isinstance(path, str) and "assets/" in path:
                owner[key] = path[path.rindex("assets/") :]  # pyright: ignore[reportCallIssue, reportArgumentType]  # as above
        version = 2
    if not isinstance(version, (int, float)) or version < FORMAT_VERSION:
        tokens = database["loreBookToken"]
        if isinstance(tokens, (int, float)) and tokens < LORE_TOKENS:
            database["loreBookToken"] = LORE_TOKENS
        version = FORMAT_VERSION
    database["formatversion"] = version


def _asset_paths(database: Stored, characters: Sequence[Stored]) -> Iterator[tuple[Stored | list[Packed], str | int]]:
    yield from ((database, key) for key in ("customBackground", "userIcon"))
    for character in characters:
        if "image" in character:
            yield character, "image"
        for key in ("emotionImages", "additionalAssets"):
            rows = character.get(key)
            for row in rows if isinstance(rows, list) else ():
                if isinstance(row, list) and len(row) > 1:
                    yield row, 1


def _is_old_trash(character: Stored, now: float) -> bool:
    moment = character.get("trashTime")
    return isinstance(moment, (int, float)) and moment > 0 and moment + TRASH_MILLISECONDS < now


def _order(database: Stored, characters: Sequence[Stored]) -> None:
    """Update the order of the characters; duplicate ids are made unique only afterwards."""
    known = [str(each["chaId"]) for each in characters if not truthy(each.get("trashTime"))]
    order = database["characterOrder"]
    listed = order if isinstance(order, list) else []
    mentioned = {
        each
        for entry in listed
        for each in (_folder(entry) if isinstance(entry, dict) else [entry])
        if isinstance(each, str)
    }
    ids = set(known)
    kept: list[Packed] = []
    for entry in [*listed, *(name for name in known if name not in mentioned)]:
        if isinstance(entry, dict):
            inside = _folder(entry)
            if inside:  # RisuAI drops a folder that was empty already, not one that is empty now
                kept.append({**entry, "data": [each for each in inside if isinstance(each, str) and each in ids]})
        elif isinstance(entry, str) and entry in ids:
            kept.append(entry)
    database["characterOrder"] = kept


def _folder(entry: Stored) -> list[Packed]:
    data = entry.get("data")
    return data if isinstance(data, list) else []


def _give_ids(characters: Sequence[Stored]) -> None:
    """Replace duplicate ids, and add ids to chats without one."""
    seen: set[str] = set()
    for number, character in enumerate(characters):
        _make_unique(character, "chaId", seen, "character", number)
        chats = character["chats"]
        for index, chat in enumerate(chats if isinstance(chats, list) else ()):
            if isinstance(chat, dict):
                _make_unique(chat, "id", seen, "chat", number, index)


def _make_unique(owner: Stored, key: str, seen: set[str], *parts: object) -> None:
    found = owner.get(key)
    if not isinstance(found, str) or not found or found in seen:
        owner[key] = found = made_id(*map(str, parts), found)
    seen.add(found)


def _objects(database: Stored, key: str, warn: Warn) -> list[Stored]:
    """Return the objects of a list, and remove other items; RisuAI silently removes nulls."""
    found = database[key]
    objects: list[Stored] = []
    for number, each in enumerate(found if isinstance(found, list) else ()):
        if isinstance(each, dict):
            objects.append(each)
        elif each is not None:
            warn(f"{key}: number {number} is left out: it must be an object, not {type(each).__name__}")
    database[key] = objects  # pyright: ignore[reportArgumentType]  # a list of objects is a list of values
    return objects


def migrated(entries: Sequence[Packed]) -> list[Packed]:
    """Migrate lore entries of old versions."""
    return [migrate_entries([each])[0] if isinstance(each, dict) else each for each in entries]  # pyright: ignore[reportReturnType]  # JSON in, JSON out


def open_character(character: Stored) -> None:
    """Do in place what RisuAI does when a user opens a character or group."""
    is_group = character.get("type") == "group"
    chats = character.get("chats")
    found: list[Packed] = [each for each in chats if isinstance(each, dict)] if isinstance(chats, list) else []
    if not found:
        found = [{"message": [], "note": "", "name": "Chat 1", "localLore": []}]
    character["chats"] = found
    page = character.get("chatPage")
    if isinstance(page, bool) or not isinstance(page, (int, float)) or page not in range(len(found)):
        page = character["chatPage"] = 0
    greeting = character.get("firstMsgIndex")
    for number, chat in enumerate(found):
        assert isinstance(chat, dict)
        if not isinstance(chat.get("message"), list):
            chat["message"] = []
        if chat.get("fmIndex") is None:
            chat["fmIndex"] = -1 if greeting is None else greeting
        if chat.get("localLore") is None:
            chat["localLore"] = []
        if not chat.get("id"):
            chat["id"] = made_id("chat", character.get("chaId"), number)
    if is_group:
        _fill_group(character)
        return
    lore = character.get("globalLore")
    if isinstance(lore, list):
        character["globalLore"] = migrated(lore)
    if not isinstance(character.get("depth_prompt"), dict):
        character["depth_prompt"] = {"depth": 0, "prompt": ""}
    # RisuAI moves these into the note of the chat that is open, once and for good.
    instructions = character.get("postHistoryInstructions")
    open_chat = found[int(page)]
    if isinstance(instructions, str) and instructions and isinstance(open_chat, dict):
        note = open_chat.get("note")
        open_chat["note"] = trim(f"{note if isinstance(note, str) else ''}\n{instructions}")
        character["postHistoryInstructions"] = ""


def _fill_group(group: Stored) -> None:
    members = group.get("characters")
    count = len(members) if isinstance(members, list) else 0
    defaults: Mapping[str, Packed] = {"characterTalks": 2 / 3, "characterActive": True}
    for key, value in defaults.items():
        stated = group.get(key)
        if not isinstance(stated, list) or len(stated) != count:
            group[key] = [value for _ in range(count)]
