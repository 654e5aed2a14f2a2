"""A whole SillyTavern data folder, or files exported from RisuAI, as one job."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit import silly_tavern as st
from tavernkit.cards.json_text import parse_json
from tavernkit.errors import TavernKitError
from tavernkit.server.errors import ServiceError
from tavernkit.server.import_archive import files_below, unpack
from tavernkit.server.item_files import NewItem, persona_item, read_item
from tavernkit.server.library import StoredPersona, read_scripts
from tavernkit.server.limits import MAX_JOB_WARNINGS, MAX_MESSAGES
from tavernkit.server.regex_files import add_scripts
from tavernkit.server.storage import chats, jobs
from tavernkit.server.storage.chats import Selection, new_line
from tavernkit.server.storage.database import Database
from tavernkit.server.storage.items import Kind, save_item
from tavernkit.values import EMPTY_OBJECT, Json, JsonObject, is_mapping, is_object, is_sequence, thaw

logger = logging.getLogger("tavernkit.server")

ROOT_MARKS = ("settings.json", "characters")


@dataclass(slots=True)
class _Progress:
    """What a job has done so far."""

    job_id: str
    owner: str
    counts: dict[str, int] = field(default_factory=dict[str, int])
    warnings: list[str] = field(default_factory=list[str])
    characters: dict[str, str] = field(default_factory=dict[str, str])
    """Ids of imported characters by the names of their files."""
    done: int = 0

    def warn(self, message: str) -> None:
        if len(self.warnings) < MAX_JOB_WARNINGS:
            self.warnings.append(message)

    def result(self) -> JsonObject:
        imported: dict[str, Json] = {**self.counts}
        return {"imported": imported, "warnings": [*self.warnings]}


class Imports:
    """Runs import jobs in the background."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, owner: str, folder: Path, filename: str) -> jobs.JobState:
        """Begin an import of ``folder/upload``; the folder is removed at the end."""
        async with self._database.write() as connection:
            job = await jobs.create_job(connection, owner, "import")
        task = asyncio.create_task(self._run(_Progress(job.id, owner), folder, filename))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    async def stop(self) -> None:
        """Give up what runs; it shows as interrupted."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, progress: _Progress, folder: Path, filename: str) -> None:
        status = jobs.FAILED
        try:
            work = await asyncio.to_thread(_plan, folder, filename)
            async with self._database.write() as connection:
                await jobs.update_job(connection, progress.job_id, total=len(work))
            for name, task in work:
                await self._one(progress, name, task)
            status = jobs.DONE
        except ServiceError as error:
            progress.warn(str(error))
        except asyncio.CancelledError:
            status = jobs.INTERRUPTED
            raise
        except Exception:
            logger.exception("an import failed")
            progress.warn("the import failed; the log says why")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            async with self._database.write() as connection:
                await jobs.update_job(connection, progress.job_id, status=status, result=progress.result())

    async def _one(self, progress: _Progress, name: str, task: Callable[..., object]) -> None:
        """Store one file and the progress together; a file that cannot be read is reported and left out."""
        progress.done += 1
        try:
            made = await asyncio.to_thread(task)
        except (TavernKitError, OSError) as error:
            progress.warn(f"{name} is left out: {error}")
            made = None
        async with self._database.write() as connection:
            if isinstance(made, NewItem):
                info = await save_item(
                    connection,
                    made.kind,
                    name=made.name,
                    platform=made.platform,
                    file=made.file,
                    filename=made.filename,
                )
                progress.counts[made.kind] = progress.counts.get(made.kind, 0) + 1
                if made.kind == "character":
                    progress.characters[Path(name).name] = info.id
                for warning in made.warnings:
                    progress.warn(f"{name}: {warning}")
            elif isinstance(made, _FoundChat):
                await _store_chat(connection, progress, made)
            elif isinstance(made, _FoundGroup):
                await _store_group(connection, progress, made)
            elif isinstance(made, _FoundScripts):
                await add_scripts(connection, made.scripts)
                progress.counts["regex"] = len(made.scripts)
            await jobs.update_job(connection, progress.job_id, done=progress.done, result=progress.result())


@dataclass(frozen=True, slots=True)
class _FoundChat:
    avatar: str
    file: st.ChatFile


@dataclass(frozen=True, slots=True)
class _FoundScripts:
    scripts: tuple[JsonObject, ...]


@dataclass(frozen=True, slots=True)
class _FoundGroup:
    group: st.Group


def _plan(folder: Path, filename: str) -> list[tuple[str, Callable[[], object]]]:
    """What there is to do, in order: characters before the chats that name them."""
    upload = folder / "upload"
    if not filename.lower().endswith(".zip"):
        data = upload.read_bytes()
        return [(filename, lambda: _any_item(filename, data))]
    content = folder / "content"
    unpack(upload, content)
    root = next((path for path in _folders(content) if any((path / mark).exists() for mark in ROOT_MARKS)), None)
    if root is None:
        return [(str(path.relative_to(content)), _reading(path)) for path in files_below(content)]
    return list(_data_folder(st.DataFolder(root, warn=logger.warning)))


def _folders(content: Path) -> Iterator[Path]:
    yield content
    yield from (path for path in sorted(content.rglob("*")) if path.is_dir())


def _reading(path: Path) -> Callable[[], NewItem]:
    return lambda: _any_item(path.name, path.read_bytes())


def _any_item(filename: str, data: bytes) -> NewItem:
    """Read a file whose kind only its name and content tell."""
    lower = filename.lower()
    for suffixes, kind in _BY_SUFFIX:
        if lower.endswith(suffixes):
            return read_item(kind, filename, data)
    return read_item(_json_kind(filename, data), filename, data)


def _json_kind(filename: str, data: bytes) -> Kind:
    value = parse_json(data, what=filename, warn=logger.warning)
    if is_object(value):
        for keys, kind in _BY_KEYS:
            if any(key in value for key in keys):
                return kind
    return "character"


_BY_SUFFIX: tuple[tuple[tuple[str, ...], Kind], ...] = (
    ((".risup", ".risupreset"), "preset"),
    ((".risum",), "module"),
    ((".png", ".charx", ".webp", ".jpg", ".jpeg", ".yaml", ".yml", ".byaf"), "character"),
)
_BY_KEYS: tuple[tuple[tuple[str, ...], Kind], ...] = (
    (("spec",), "character"),
    (("promptTemplate", "formatingOrder", "prompts", "prompt_order"), "preset"),
    (("lorebook", "trigger", "regex"), "module"),
    (("entries",), "book"),
)
"""What the objects of each kind have, in the order they are asked."""


def _data_folder(source: st.DataFolder) -> Iterator[tuple[str, Callable[[], object]]]:
    root = source.path

    def item(kind: Kind, *parts: str) -> tuple[str, Callable[[], object]]:
        path = root.joinpath(*parts)
        return "/".join(parts), lambda: read_item(kind, path.name, path.read_bytes())

    for name in source.characters():
        yield item("character", "characters", name)
    for name in source.worlds():
        yield item("book", "worlds", f"{name}.json")
    for name in source.presets():
        yield item("preset", "OpenAI Settings", f"{name}.json")
    for persona in _personas(source):
        yield f"persona {persona.name}", lambda persona=persona: persona_item(persona)
    scripts = source.settings.extension_settings.get("regex")
    if is_sequence(scripts) and scripts:
        yield "settings.json: regex scripts", lambda: _FoundScripts(read_scripts(thaw(scripts)))
    for group_id in source.groups():
        yield f"groups/{group_id}", lambda group_id=group_id: _FoundGroup(source.group(group_id))
    for avatar in source.characters():
        for chat in source.chats(avatar):
            yield f"chats/{avatar}/{chat}", lambda a=avatar, c=chat: _FoundChat(a, source.chat(a, c))


def _personas(source: st.DataFolder) -> list[StoredPersona]:
    power_user = source.settings.source.get("power_user")
    names = power_user.get("personas") if is_mapping(power_user) else None
    texts = power_user.get("persona_descriptions") if is_mapping(power_user) else None
    found: list[StoredPersona] = []
    for avatar, name in names.items() if is_mapping(names) else ():
        stored = texts.get(avatar) if is_mapping(texts) else None
        details = stored if is_mapping(stored) else EMPTY_OBJECT
        position, depth, role = (details.get(key) for key in ("position", "depth", "role"))
        found.append(
            StoredPersona(
                name=str(name),
                description=str(details.get("description") or ""),
                position=position if isinstance(position, int) else 0,
                depth=depth if isinstance(depth, int) else 2,
                role=role if isinstance(role, int) else 0,
            )
        )
    return found


async def _store_chat(connection: AsyncConnection, progress: _Progress, found: _FoundChat) -> None:
    character = progress.characters.get(found.avatar)
    if character is None:
        progress.warn(f"the chat {found.file.name!r} is left out: its character was not imported")
        return
    messages = found.file.messages
    if len(messages) > MAX_MESSAGES:
        progress.warn(f"the chat {found.file.name!r} has more than {MAX_MESSAGES} messages: only the last are taken")
        messages = messages[-MAX_MESSAGES:]
    lines = [
        new_line("user" if each.is_user else "system" if each.narrator else "assistant", each.mes, each.to_json())
        for each in messages
    ]
    external_id = f"import:{progress.job_id}:{found.file.name}"[:200]
    chat = await chats.create_chat(connection, progress.owner, external_id, Selection(character=character), lines)
    metadata = found.file.metadata
    details = metadata.to_json()
    variables = details.pop("variables", None)
    await chats.update_chat(connection, chat, details=details, variables={"local": variables} if variables else {})
    progress.counts["session"] = progress.counts.get("session", 0) + 1


async def _store_group(connection: AsyncConnection, progress: _Progress, found: _FoundGroup) -> None:
    """A group whose members are named by the ids they have here."""
    group = found.group
    known = progress.characters
    for member in group.members:
        if member not in known:
            progress.warn(f"group {group.name!r}: the member {member!r} is not there")
    renamed = group.replace(
        members=tuple(known[each] for each in group.members if each in known),
        disabled_members=tuple(known[each] for each in group.disabled_members if each in known),
    )
    item = read_item("group", f"{group.name or group.id}.json", _json(renamed.to_json()), name=group.name or group.id)
    await save_item(connection, "group", name=item.name, platform=item.platform, file=item.file, filename=item.filename)
    progress.counts["group"] = progress.counts.get("group", 0) + 1


def _json(value: JsonObject) -> bytes:
    return json.dumps(value).encode()
