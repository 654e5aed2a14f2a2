"""The fields of RisuAI's character object and where a card has them, and its lore entries as character books."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import UNDEFINED, join, to_string, trim, truthy
from tavernkit._values import EMPTY_OBJECT, Json, JsonObject, is_mapping, is_object, is_sequence, thaw, thaw_object
from tavernkit.cards._assets import RISU_LISTS
from tavernkit.cards._book import CharacterBook
from tavernkit.cards._json_text import decode_base64
from tavernkit.errors import InvalidCardError

MAX_DATA_URI = 50 * 1024 * 1024

Store = Callable[[bytes, str], str]
"""Stores an asset's bytes (with a file name, for its extension) and returns its path."""

TEXT_FIELDS: tuple[tuple[str, str], ...] = (
    ("name", "name"),
    ("firstMessage", "first_mes"),
    ("desc", "description"),
    ("exampleMessage", "mes_example"),
    ("creatorNotes", "creator_notes"),
    ("systemPrompt", "system_prompt"),
    ("replaceGlobalNote", "post_history_instructions"),
    ("creator", "creator"),
    ("personality", "personality"),
    ("scenario", "scenario"),
)
"""RisuAI's and the card's names of texts, which are empty by default."""

RISUAI_FIELDS: tuple[tuple[str, str, Json], ...] = (
    ("bias", "bias", []),
    ("viewScreen", "viewScreen", "none"),
    ("customscript", "customScripts", []),
    ("utilityBot", "utilityBot", False),
    ("triggerscript", "triggerscript", []),
    ("private", "private", False),
    ("additionalText", "additionalText", ""),
    ("lorePlus", "lorePlus", False),
    ("inlayViewScreen", "inlayViewScreen", False),
    ("lowLevelAccess", "lowLevelAccess", False),
    ("defaultVariables", "defaultVariables", ""),
    ("prebuiltAssetCommand", "prebuiltAssetCommand", ""),
    ("prebuiltAssetExclude", "prebuiltAssetExclude", []),
    ("prebuiltAssetStyle", "prebuiltAssetStyle", ""),
    ("source", "source", []),
)
"""RisuAI's name, the key in ``extensions.risuai``, and the value when it is missing."""

RISUAI_OPTIONAL = ("sdData", "backgroundHTML", "license", "newGenData", "vits")
"""Keys of ``extensions.risuai`` that are used only if present."""

V3_FIELDS: tuple[tuple[str, Json], ...] = (
    ("group_only_greetings", []),
    ("nickname", ""),
    ("creation_date", 0),
    ("modification_date", 0),
)


class ImportRefusedError(InvalidCardError):
    """RisuAI refuses the file with a message."""


class ImportThrewError(InvalidCardError):
    """RisuAI's import throws an error.

    ``error`` is the JavaScript error's class; ``in_progress`` is True if its progress dialog stays open.
    """

    def __init__(self, message: str, *, error: str, in_progress: bool = False) -> None:
        super().__init__(message)
        self.error = error
        self.in_progress = in_progress


def from_card(card: JsonObject, assets: Mapping[str, bytes], store: Store) -> JsonObject:
    """Convert a V2 or V3 card. ``assets`` are the file's own, by path or key."""
    data = card.get("data")
    extensions = data.get("extensions") if is_object(data) else None
    if not is_object(data) or not is_object(extensions):
        raise ImportThrewError("the card has no data.extensions, which RisuAI needs", error="TypeError")
    stated = extensions.get("risuai")
    risuai: JsonObject = stated if is_object(stated) else {}
    character: JsonObject = {key: _present(data.get(source), "") for key, source in TEXT_FIELDS}
    character |= {
        "alternateGreetings": _present(data.get("alternate_greetings"), []),
        "tags": _present(data.get("tags"), []),
        "characterVersion": to_string(data.get("character_version", UNDEFINED)),
        "postHistoryInstructions": "",
        "virtualscript": "",
        "additionalData": _additional_data(data),
        # RisuAI drops the depth prompt here, and does not put it on the character either.
        "extentions": {key: value for key, value in extensions.items() if key not in ("risuai", "depth_prompt")},
        "largePortrait": _present(risuai.get("largePortrait"), not is_object(stated)),
        "globalLore": [],
        "emotionImages": [],
        "additionalAssets": [],
        "ccAssets": [],
    }
    character |= {key: _present(risuai.get(source), default) for key, source, default in RISUAI_FIELDS}
    character |= {key: risuai[key] for key in RISUAI_OPTIONAL if risuai.get(key) is not None}
    _put_lore(character, data)
    if card.get("spec") == "chara_card_v3":
        character |= {key: _present(data.get(key), default) for key, default in V3_FIELDS}
        character["source"] = _present(data.get("source"), character["source"])
        _put_v3_assets(character, data, assets, store)
    else:
        _put_v2_assets(character, risuai, assets, store)
    return character


def _present(value: Json, otherwise: Json) -> Json:
    return thaw(otherwise) if value is None else value


def _additional_data(data: JsonObject) -> JsonObject:
    additional: JsonObject = {"tag": _present(data.get("tags"), [])}
    return additional | {key: data[key] for key in ("creator", "character_version") if key in data}


def _put_lore(character: JsonObject, data: JsonObject) -> None:
    book = data.get("character_book")
    if not is_mapping(book):
        return
    lore = convert_character_book(book)
    character["globalLore"] = lore.lorebook
    character["loreExt"] = lore.extensions
    if lore.settings is not None:
        character["loreSettings"] = lore.settings


def _put_v3_assets(character: JsonObject, data: JsonObject, assets: Mapping[str, bytes], store: Store) -> None:
    emotions: list[Json] = []
    additional: list[Json] = []
    others: list[Json] = []
    listed = data.get("assets")
    for asset in listed if isinstance(listed, list) else ():
        if not is_object(asset):
            continue
        content = _asset_bytes(to_string(asset.get("uri", "")), assets)
        if content is None:
            continue
        path = store(content, "")
        name, type_ = _present(asset.get("name"), ""), asset.get("type")
        if type_ == "emotion":
            emotions.append([name, path])
        elif type_ == "x-risu-asset":
            additional.append([name, path, _present(asset.get("ext"), "unknown")])
        elif type_ == "icon" and name == "main":
            character["image"] = path
        else:
            ext = _present(asset.get("ext"), "unknown")
            others.append({"type": _present(type_, "asset"), "uri": path, "name": name, "ext": ext})
    character |= {"emotionImages": emotions, "additionalAssets": additional, "ccAssets": others}


def _put_v2_assets(character: JsonObject, risuai: JsonObject, assets: Mapping[str, bytes], store: Store) -> None:
    kept: dict[str, list[Json]] = {key: [] for key, _ in RISU_LISTS}
    for key, found in kept.items():
        items = risuai.get(key)
        for item in items if isinstance(items, list) else ():
            if not isinstance(item, list) or len(item) < 2 or not isinstance(item[1], str):
                continue
            file_name = to_string(item[2]) if len(item) > 2 else ""
            content = _reference(item[1], "__asset:", assets)
            path = store(decode_base64(item[1].encode("utf-8", "replace")) if content is None else content, file_name)
            found.append([item[0], path] if key == "emotions" else [item[0], path, file_name])
    character |= {"emotionImages": kept["emotions"], "additionalAssets": kept["additionalAssets"]}


def _asset_bytes(uri: str, assets: Mapping[str, bytes]) -> bytes | None:
    for scheme in ("__asset:", "embeded://"):
        content = _reference(uri, scheme, assets)
        if content is not None:
            return content
    if not uri.startswith("data:"):
        return None
    if len(uri) > MAX_DATA_URI:
        raise ImportThrewError("a data uri is too large", error="Error", in_progress=True)
    return decode_base64(uri.partition(",")[2].encode("utf-8", "replace"))


def _reference(uri: str, scheme: str, assets: Mapping[str, bytes]) -> bytes | None:
    if not uri.startswith(scheme):
        return None
    content = assets.get(uri.removeprefix(scheme))
    if content is None:
        raise ImportThrewError(f"the asset {uri[:80]!r} is not in the file", error="Error", in_progress=True)
    return content


def from_off_spec(card: JsonObject) -> JsonObject:
    """Convert a card without a known spec: RisuAI reads only V1's fields."""
    character: JsonObject = {
        "name": _present(card.get("name"), "unknown name"),
        "firstMessage": _present(card.get("first_mes"), "unknown first message"),
        "desc": _present(card.get("description"), ""),
        "personality": _present(card.get("personality"), ""),
        "scenario": _present(card.get("scenario"), ""),
        "emotionImages": [],
        "bias": [],
        "globalLore": [],
        "viewScreen": "none",
        "utilityBot": False,
        "customscript": [],
        "alternateGreetings": [],
        "tags": [],
        "triggerscript": [],
    }
    for key in (
        "creatorNotes",
        "systemPrompt",
        "postHistoryInstructions",
        "creator",
        "characterVersion",
        "replaceGlobalNote",
        "additionalText",
    ):
        character[key] = ""
    if "mes_example" in card:
        character["exampleMessage"] = card["mes_example"]
    return character


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
    # RisuAI looks at the first key only.
    use_regex = truthy(entry.get("use_regex")) and bool(keys) and to_string(keys[0]).startswith("/")
    # RisuAI does not read `enabled`: disabled entries become ordinary ones.
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
