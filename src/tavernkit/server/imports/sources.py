"""The contents of an upload: a save, an archive, a folder or a single file, read on demand.

Archives are unpacked within limits.
"""

from __future__ import annotations

import shutil
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from lzma import LZMAError
from pathlib import Path, PurePosixPath

from tavernkit import risu_ai
from tavernkit import silly_tavern as st
from tavernkit._values import Json, JsonObject, is_object
from tavernkit.cards import parse_json
from tavernkit.conversation._stores import STATE_SUFFIX
from tavernkit.errors import Warn
from tavernkit.server.errors import ServiceError
from tavernkit.server.imports.data_folder import data_folder_work
from tavernkit.server.imports.found import (
    Found,
    FoundChat,
    FoundGroup,
    FoundGroupChat,
    FoundRisuChats,
    FoundScripts,
    FoundSettings,
    Work,
)
from tavernkit.server.imports.saves import SaveSource, is_save
from tavernkit.server.library.chat_settings import chosen_settings
from tavernkit.server.library.item_files import read_item
from tavernkit.server.library.library import CHAT_SETTINGS, REFUSED_SCRIPTS, RISU_AI, read_refusals, read_scripts
from tavernkit.server.limits import MAX_IMPORT_BYTES, MAX_IMPORT_FILES, MAX_IMPORT_RATIO
from tavernkit.server.sessions.files import digest_of
from tavernkit.server.storage.items import KINDS, Kind

MAX_DEPTH = 12
"""How deep folders of an archive may be."""
COPY_BYTES = 1 << 16

EXPORT_MARK = "tavernkit-export.json"
"""A file that only archives of ``tavernkit server export`` have."""
ROOT_MARKS = ("settings.json", "characters")
RISU_CHATS = ("risuChat", "risuAllChats")


def find_work(folder: Path, filename: str, warn: Warn) -> list[Work]:
    """Yield the items to import, in order: characters before their chats.

    ``warn`` is called with problems in settings, chats and groups, also when they are read later.
    """
    upload = folder / "upload"
    if is_save(upload, filename):
        return save_work(upload, warn)
    name = Path(filename.replace("\\", "/")).name
    if not _is_archive(upload, name):
        return [(filename, lambda: _any_file(Path(name), upload.read_bytes(), warn))]
    content = folder / "content"
    unpack(upload, content)
    return work_below(content, warn)


def _is_archive(file: Path, name: str) -> bool:
    """Return True for a ZIP file of files, whatever its name; a card may be a ZIP file too."""
    lower = name.lower()
    if lower.endswith(".zip"):
        return True
    if lower.endswith(tuple(suffix for suffixes, _ in _BY_SUFFIX for suffix in suffixes)):
        return False
    with file.open("rb") as opened:
        return opened.read(len(ZIP_START)) == ZIP_START


def work_below(content: Path, warn: Warn, *, served: bool = False) -> list[Work]:
    """Yield the items of a folder: an archive of ours, a SillyTavern data folder, or any files.

    Args:
        content: The folder.
        warn: Called with problems.
        served: True for a folder that is served: other files in it are not reported, and new sessions with its
            characters have its settings.
    """
    if (content / EXPORT_MARK).is_file():
        return list(_export(content, warn))
    root = next((path for path in _folders(content) if any((path / mark).exists() for mark in ROOT_MARKS)), None)
    if root is not None:
        others = [path.name for path in st.DataFolder.users(root.parent) if path.parent == root.parent and path != root]
        if others and root != content:
            warn(f"only the user {root.name} is imported: import the folders of the others: {', '.join(others)}")
        return list(data_folder_work(st.DataFolder(root, warn=warn), warn, served=served))
    files = (path for path in files_below(content) if not served or _may_be_item(path))
    paths = sorted(files, key=lambda path: (_may_be_chat(path), path))
    return [(str(path.relative_to(content)), _reading(path, path.relative_to(content), warn)) for path in paths]


def _export(content: Path, warn: Warn) -> Iterator[Work]:
    """Yield the items of an archive of ours: its folders are kinds, its files have the ids that others refer to."""
    files: dict[str, list[Path]] = {kind: sorted((content / f"{kind}s").glob("*")) for kind in KINDS}
    refused = {tuple(each[:2]) for each in read_refusals(_refusals(files["settings"], warn))}
    characters = {path.stem: path.name for path in files["character"]}
    groups = {path.stem for path in files["group"]}
    readable: tuple[Kind, ...] = ("character", "book", "preset", "persona", "module")
    for kind in readable:
        for path in files[kind]:
            name = f"{kind}s/{path.name}"
            allowed = (kind, path.stem) not in refused
            yield (
                name,
                lambda kind=kind, path=path, allowed=allowed: replace(
                    read_item(kind, path.name, path.read_bytes()), scripts_allowed=allowed
                ),
            )
    for path in files["regex"]:
        yield f"regexs/{path.name}", lambda path=path: FoundScripts(read_scripts(_json(path, warn)))
    for platform, (kind, item_id) in CHAT_SETTINGS.items():
        path = content / f"{kind}s" / f"{item_id}.json"
        if path.is_file():
            yield f"{kind}s/{path.name}", lambda path=path, of=platform: _exported_settings(path, of, warn)
    for path in files["group"]:
        yield f"groups/{path.name}", lambda path=path: FoundGroup(path.stem, _group(path, characters, warn))
    if files["folder"] or files["file"]:
        warn("settings and files of imported data folders are left out: import those folders again, or use a backup")
    for path in files_below(content / "chats"):
        name = str(path.relative_to(content))
        yield name, lambda path=path: _exported_chat(path, characters, groups, warn)


def _refusals(settings: Sequence[Path], warn: Warn) -> JsonObject:
    """Return the exported list of items whose regex scripts do not run."""
    found = next((path for path in settings if path.stem == REFUSED_SCRIPTS[1]), None)
    return _object(found, warn) if found is not None else {}


def _json(path: Path, warn: Warn) -> Json:
    return parse_json(path.read_bytes(), what=path.name, warn=warn)


def _object(path: Path, warn: Warn) -> JsonObject:
    return _parsed(_json(path, warn))


def _parsed(value: Json) -> JsonObject:
    return value if is_object(value) else {}


def _exported_settings(path: Path, platform: str, warn: Warn) -> FoundSettings:
    return FoundSettings(chosen_settings(_object(path, warn), platform), platform)


def _group(path: Path, characters: Mapping[str, str], warn: Warn) -> st.Group:
    """Read a group whose members are ids, and return it with their files' names."""
    group = st.Group.from_json(_object(path, warn))
    return group.replace(
        members=tuple(characters.get(each, each) for each in group.members),
        disabled_members=tuple(characters.get(each, each) for each in group.disabled_members),
    )


def _exported_chat(path: Path, characters: Mapping[str, str], groups: Collection[str], warn: Warn) -> Found:
    owner = path.parent.name
    found = _any_file(Path(owner, path.name), path.read_bytes(), warn)
    if isinstance(found, FoundChat):
        return (
            FoundGroupChat(owner, found.file, found.digest)
            if owner in groups
            else replace(found, avatar=characters.get(owner))
        )
    return found


def _folders(content: Path) -> Iterator[Path]:
    yield content
    yield from (path for path in sorted(content.rglob("*")) if path.is_dir())


def _reading(path: Path, name: Path, warn: Warn) -> Callable[[], Found]:
    return lambda: _any_file(name, path.read_bytes(), warn)


def _may_be_item(path: Path) -> bool:
    """Return False for files that are not cards, books, presets, modules or chats by their names."""
    return path.suffix.lower() in _SUFFIXES and not path.name.lower().endswith(_OTHER_FILES)


def _may_be_chat(path: Path) -> bool:
    """Return True if a file is read after the others, because chats need their characters."""
    if path.suffix.lower() == ".json":
        return any(kind.encode() in path.read_bytes() for kind in RISU_CHATS)
    return path.suffix.lower() == ".jsonl"


def _any_file(path: Path, data: bytes, warn: Warn) -> Found:
    """Read a file of any kind, detected by its name and content."""
    lower = path.name.lower()
    if lower.endswith(".jsonl"):
        text = data.decode("utf-8-sig", "replace")
        return FoundChat(st.ChatFile.loads(text, name=path.stem, warn=warn), digest_of(data))
    for suffixes, kind in _BY_SUFFIX:
        if lower.endswith(suffixes):
            return read_item(kind, path.name, data)
    value = parse_json(data, what=path.name, warn=warn)
    if is_object(value) and value.get("type") in RISU_CHATS:
        return FoundRisuChats(path, risu_ai.ChatFile.load(data, warn=warn))
    return read_item(_json_kind(value), path.name, data)


def _json_kind(value: object) -> Kind:
    if is_object(value):
        for keys, kind in _BY_KEYS:
            if any(key in value for key in keys):
                return kind
    return "character"


ZIP_START = b"PK\3\4"
"""The first bytes of a ZIP file."""

_BY_SUFFIX: tuple[tuple[tuple[str, ...], Kind], ...] = (
    ((".risup", ".risupreset"), "preset"),
    ((".risum",), "module"),
    ((".png", ".apng", ".charx", ".webp", ".jpg", ".jpeg", ".yaml", ".yml", ".byaf"), "character"),
)
_SUFFIXES = frozenset((".json", ".jsonl", *(suffix for suffixes, _ in _BY_SUFFIX for suffix in suffixes)))
_OTHER_FILES = (STATE_SUFFIX, ".tavern.yaml", ".tavern.yml", ".lore.yaml", ".lore.yml")
"""Endings of files that conversations and the tests of cards have next to them."""
_BY_KEYS: tuple[tuple[tuple[str, ...], Kind], ...] = (
    (("spec",), "character"),
    (("promptTemplate", "formatingOrder", "prompts", "prompt_order"), "preset"),
    (("lorebook", "trigger", "regex"), "module"),
    (("entries",), "book"),
)
"""The keys that identify each kind, in the order of checks."""


def save_work(path: Path, warn: Warn) -> list[Work]:
    """Yield the items of a RisuAI save: a backup, a database or its folder."""
    return list(_save(SaveSource(path, warn)))


def _save(source: SaveSource) -> Iterator[Work]:
    for name, character in source.characters():
        yield name, lambda character=character: source.character_item(character)
    for items in (source.preset_items(), source.module_items(), source.persona_items()):
        yield from ((name, lambda item=item: item) for name, item in items)
    if settings := source.settings():
        found = FoundSettings(settings, RISU_AI, source.variables())
        yield "database: settings of chats", lambda: found
    for group in source.groups():
        yield f"groups/{group.key}", lambda group=group: group
    for chats in source.chats():
        yield f"chats/{chats.owner}", lambda chats=chats: chats


def unpack(archive: Path, target: Path) -> None:
    """Unpack a ZIP file into a folder; names cannot escape it, and sizes are limited."""
    try:
        with zipfile.ZipFile(archive) as opened:
            members = [info for info in opened.infolist() if not info.is_dir()]
            _check(members)
            left = MAX_IMPORT_BYTES
            for info in members:
                left -= _extract(opened, info, target, left)
    except (zipfile.BadZipFile, zlib.error, LZMAError, RuntimeError, EOFError, OSError, ValueError) as error:
        raise ServiceError(422, f"the archive cannot be read: {error}", code="invalid_archive") from error


def files_below(folder: Path) -> Iterator[Path]:
    """Return all files of a folder, in order."""
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _check(members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MAX_IMPORT_FILES:
        raise ServiceError(422, f"the archive has more than {MAX_IMPORT_FILES} files", code="archive_too_large")
    if sum(info.file_size for info in members) > MAX_IMPORT_BYTES:
        raise ServiceError(422, f"the archive unpacks to over {MAX_IMPORT_BYTES} bytes", code="archive_too_large")
    for info in members:
        if info.file_size > MAX_IMPORT_RATIO * max(info.compress_size, 1024):
            raise ServiceError(422, "the archive's compression ratio is suspiciously high", code="archive_too_large")


def _extract(opened: zipfile.ZipFile, info: zipfile.ZipInfo, target: Path, left: int) -> int:
    parts = PurePosixPath(info.filename.replace("\\", "/")).parts
    if not parts or len(parts) > MAX_DEPTH or any(part in ("..", "/", "") or ":" in part for part in parts):
        raise ServiceError(422, f"the name {info.filename!r:.80} points outside the archive", code="invalid_archive")
    path = target.joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    with opened.open(info) as source, path.open("wb") as copy:
        written = 0
        while block := source.read(COPY_BYTES):
            written += len(block)
            if written > left:
                raise ServiceError(422, "the archive is larger than it says", code="archive_too_large")
            copy.write(block)
    return written


def copy_upload(source: object, target: Path) -> None:
    """Write an upload to a file."""
    with target.open("wb") as copy:
        shutil.copyfileobj(source, copy)  # pyright: ignore[reportArgumentType]  # a binary file
