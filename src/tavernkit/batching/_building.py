"""Builds the prompts of tasks in a worker. Files are read once and kept while they are in use."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import is_
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, Unpack

from tavernkit._values import EMPTY_OBJECT, FrozenObject, JsonObject, LRUCache, is_sequence, thaw_object
from tavernkit.batching._tasks import UNREADABLE, BatchRecord, BuildOptions, FileRef, Task
from tavernkit.cards import Bundle, User, load
from tavernkit.cards._json_text import parse_json
from tavernkit.conversation._books import parse_book, world_book
from tavernkit.errors import ConfigError, FileFormatError, WarningLog
from tavernkit.models._request import Request
from tavernkit.prompt._block import Omission
from tavernkit.prompt._plan import Plan

if TYPE_CHECKING:
    from tavernkit import risu_ai, silly_tavern

T = TypeVar("T")

MAX_FILES: Final = 64
"""Files that a worker keeps in memory, parsed."""
MAX_BUILDERS: Final = 16
"""Combinations of files that a worker keeps ready."""
MAX_OMISSIONS: Final = 100
"""Omissions that a record lists; ``omitted`` counts them all."""
TEXT: Final = "text"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A file's value, or why there is none, and its warnings."""

    value: object
    warnings: tuple[str, ...] = ()
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    """A builder with everything except message and seed, and the warnings about its files."""

    build: Callable[..., Plan]
    warnings: tuple[str, ...]


class PromptMaker:
    """Builds records, one task after another; made once in each worker."""

    def __init__(
        self,
        folder: Path,
        *,
        model: str = "",
        dialect: str = "openai",
        request_options: FrozenObject = EMPTY_OBJECT,
        requests: bool = False,
    ) -> None:
        """Make one.

        Args:
            folder: Where the files of the grid are.
            model: The model that requests name.
            dialect: The protocol of requests.
            request_options: Options of requests that override the preset's.
            requests: Also make the requests of prompts.
        """
        self._folder = folder
        self._model = model
        self._dialect = dialect
        self._request_options = request_options
        self._requests = requests
        self._files: LRUCache[object, Loaded] = LRUCache(MAX_FILES)
        self._builders: LRUCache[object, Ready | Exception] = LRUCache(MAX_BUILDERS)
        self._silly_tavern: silly_tavern.Builder | None = None

    def records(self, tasks: Sequence[Task]) -> Iterator[tuple[BatchRecord, Request | None]]:
        """Build the prompts of tasks. A failed build becomes a record with the error."""
        names: JsonObject = {}
        ready: Ready | None = None
        before: Task | None = None
        for task in tasks:
            if before is not None and all(map(is_, task[1:-2], before[1:-2])):  # all but message and seed
                names = {**names, "message": task.message, "seed": task.seed}
            else:
                names, ready, before = task.names(), None, task
            try:
                ready = ready or self._ready(task)
                plan = ready.build(message=task.message, seed=task.seed)
                request = self._request(plan) if self._requests else None
                yield _record(task.key, names, plan, ready.warnings), request
            except Exception as error:  # noqa: BLE001  # one combination must not end a run of millions
                failure: JsonObject = {"type": type(error).__name__, "message": str(error)}
                yield BatchRecord(key=task.key, inputs=names, error=failure), None

    def _request(self, plan: Plan) -> Request:
        return plan.request(self._dialect, model=self._model, options=self._request_options)

    def _ready(self, task: Task) -> Ready:
        where = (task.platform, task.preset, task.card, task.books, task.persona, task.chat, _hashable(task.options))
        found = self._builders.get(where)
        if found is None:
            try:
                found = _PLATFORMS[task.platform](self, task)
            except Exception as error:  # noqa: BLE001  # the same for every message: it is remembered, and raised below
                found = error
            self._builders.put(where, found)
        if isinstance(found, Exception):
            raise found.with_traceback(None)
        return found

    def _load(self, file: FileRef, kind: str, read: Callable[[bytes, WarningLog], T], said: list[str]) -> T:
        """Return a file from the cache, or read it; warnings are added to ``said``."""
        found = self._files.get((kind, file))
        if found is None:
            log = WarningLog()
            try:
                if file.hash.startswith(UNREADABLE):
                    raise FileFormatError(f"{file.name} is {file.hash}")
                found = Loaded(read(file.content(self._folder), log), tuple(log.messages))
            except FileFormatError as error:
                named = file.name in str(error)
                found = Loaded(None, error=error if named else type(error)(f"{file.name}: {error}"))
            except Exception as error:  # noqa: BLE001  # remembered, and raised below
                found = Loaded(None, error=error)
            self._files.put((kind, file), found)
        if found.error is not None:
            raise found.error.with_traceback(None)
        said += (f"{file.name}: {message}" for message in found.warnings)
        return found.value  # pyright: ignore[reportReturnType]  # what ``read`` gave, by kind

    def silly_tavern(self, task: Task) -> Ready:
        """Make a SillyTavern builder; all builders share compiled data."""
        from tavernkit import silly_tavern as st

        options, said = task.options, list[str]()
        strict = options.strict
        card = self._card(task, said)
        if task.chat is not None:
            chat = self._load(
                task.chat, "chat", lambda data, warn: st.ChatFile.load(data, warn=warn, strict=strict), said
            )
        else:
            chat = _new_chat(card, options.greeting)
        speaker = next((line.name for line in reversed(chat.messages) if line.is_user), None)
        preset = st.Preset.default()
        if task.preset is not None:
            preset = self._load(
                task.preset, "preset", lambda data, warn: st.Preset.load(data, warn=warn, strict=strict), said
            )
        inputs: st.SillyTavernInputs = {
            "character": card.character,
            "avatar": Path(task.card.name).name,
            "history": chat,
            "preset": _limited_preset(preset, options),
            "books": [self._load(book, "world", _world_reader(book), said) for book in task.books],
            "regex_scripts": self._scripts(task, card, preset, said),
            "user": User(name=task.persona.name or speaker or "User", persona=task.persona.description),
            "generation_type": options.generation_type,
            "strict": strict,
            "on_overflow": options.on_overflow,
            "llm_options": options.llm_options,
            "clock": _Clock(options),
            "warn": None,
        }
        if options.model:
            inputs["model_hint"] = options.model
        if options.dialect == TEXT:
            inputs |= self._text_inputs(options, said)
        if self._silly_tavern is None:
            self._silly_tavern = st.Builder()
        return Ready(self._silly_tavern.replace(**inputs).build, tuple(said))

    def _card(self, task: Task, said: list[str]) -> Bundle:
        strict = task.options.strict
        bundle = self._load(task.card, "card", lambda data, warn: load(data, strict=strict, warn=warn), said)
        if bundle.card is None:
            raise FileFormatError(f"{task.card.name} is not a character card")
        return bundle

    def _text_inputs(self, options: BuildOptions, said: list[str]) -> silly_tavern.SillyTavernInputs:
        from tavernkit import silly_tavern as st

        files = {file.name: file for file in options.files}
        inputs: st.SillyTavernInputs = {"dialect": TEXT}
        if options.instruct:
            instruct = self._load(
                files[options.instruct], "instruct", lambda data, warn: st.InstructTemplate.load(data, warn=warn), said
            )
            inputs["instruct"] = instruct.replace(enabled=True)
        if options.context_template:
            inputs["context_template"] = self._load(
                files[options.context_template],
                "context",
                lambda data, warn: st.ContextTemplate.load(data, warn=warn),
                said,
            )
        if options.system_prompt:
            system_prompt = self._load(
                files[options.system_prompt], "system", lambda data, warn: st.SystemPrompt.load(data, warn=warn), said
            )
            inputs["system_prompt"] = system_prompt.replace(enabled=True)
        if options.context_length is not None:
            inputs["context_length"] = options.context_length
        if options.response_length is not None:
            inputs["response_length"] = options.response_length
        return inputs

    def _scripts(
        self, task: Task, card: Bundle, preset: silly_tavern.Preset, said: list[str]
    ) -> silly_tavern.RegexScripts:
        from tavernkit.silly_tavern import RegexScripts

        files = {file.name: file for file in task.options.files}
        given: list[object] = []
        for name in task.options.regex_scripts:
            value = self._load(
                files[name], "regex", lambda data, warn: parse_json(data, what="regex scripts", warn=warn), said
            )
            given += value if is_sequence(value) else [value]
        read = RegexScripts.from_settings(
            {"regex": given},
            card_data={"extensions": card.character.extensions},
            preset={"extensions": preset.extensions},
        )
        allowed = task.options.allow_scripts
        return dataclasses.replace(read, preset_allowed=allowed, scoped_allowed=allowed)

    def risu_ai(self, task: Task) -> Ready:
        """Make a RisuAI builder."""
        from tavernkit import risu_ai as risu

        options, said = task.options, list[str]()
        if options.dialect == TEXT:
            raise ConfigError("dialect text is for silly_tavern")
        card = self._card(task, said)
        preset = risu.Preset()
        if task.preset is not None:
            preset = self._load(task.preset, "risu-preset", _risu_preset_reader(task.preset), said)
        history: risu.HistoryInput = None
        if task.chat is not None:
            history = self._load(task.chat, "risu-chat", lambda data, warn: risu.ChatFile.load(data, warn=warn), said)
        files = {file.name: file for file in options.files}
        inputs: risu.RisuAIInputs = {
            "character": card,
            "history": history,
            "preset": _limited_risu_preset(preset, options),
            "modules": [self._load(files[name], "module", _module_reader(name), said) for name in options.modules],
            "books": [self._load(book, "risu-book", _risu_book_reader(book), said) for book in task.books],
            "regex_scripts": [
                script
                for name in options.regex_scripts
                for script in self._load(files[name], "risu-regex", _risu_script_reader(name), said)
            ],
            "user": User(name=task.persona.name or "User", persona=task.persona.description),
            "generation_type": options.generation_type,
            "strict": options.strict,
            "on_overflow": options.on_overflow,
            "llm_options": options.llm_options,
            "clock": _Clock(options),
            "warn": None,
        }
        if options.model:
            inputs["model_hint"] = options.model
        if task.chat is None:
            inputs["greeting"] = options.greeting
        builder = risu.Builder(**inputs)
        if builder.make_context().session is None:
            return Ready(builder.build, tuple(said))

        def build(**turn: Unpack[risu_ai.RisuAIInputs]) -> Plan:
            """Build with a separate cache: RisuAI caches results of scripts, including dice."""
            return risu.Builder(**inputs).build(**turn)

        return Ready(build, tuple(said))


_PLATFORMS: Final[dict[str, Callable[[PromptMaker, Task], Ready]]] = {
    "silly_tavern": PromptMaker.silly_tavern,
    "risu_ai": PromptMaker.risu_ai,
}


class _Clock:
    """A stopped clock."""

    def __init__(self, options: BuildOptions) -> None:
        self._now = options.clock_time

    def __call__(self) -> datetime:
        return self._now


def _record(key: str, names: JsonObject, plan: Plan, warnings: Sequence[str]) -> BatchRecord:
    text = plan.rendered
    messages = plan.to_messages() if text is None else None
    omitted = len(plan.omissions)
    return BatchRecord(
        key=key,
        inputs=names,
        messages=messages,
        prompt=None if text is None else text.text,
        tokens=plan.trim_report.final_tokens if plan.trim_report is not None else plan.explain().total_tokens,
        fingerprint=plan.fingerprint(TEXT) if messages is None else plan.fingerprint_of(messages),
        omissions=[_omission(each) for each in plan.omissions[:MAX_OMISSIONS]],
        omitted=omitted,
        warnings=(*warnings, *plan.warnings),
    )


def _omission(omission: Omission) -> JsonObject:
    return {
        "kind": omission.kind,
        "id": omission.id,
        "reason": omission.reason,
        "name": omission.name,
        "tokens": omission.tokens,
    }


def _hashable(options: BuildOptions) -> object:
    return (repr(thaw_object(options.llm_options)), dataclasses.replace(options, llm_options=None))  # pyright: ignore[reportArgumentType]


def _new_chat(card: Bundle, greeting: int) -> silly_tavern.ChatFile:
    """Return a new chat with the chosen greeting. Each build expands its macros, with the grid's time and seed."""
    from tavernkit.silly_tavern import ChatFile, ChatMessage

    character = card.character
    greetings = [character.first_mes, *character.alternate_greetings]
    if greeting >= len(greetings):
        raise ConfigError(f"{character.name} has {len(greetings)} greetings, counted from 0: there is no {greeting}")
    if greeting < 0 or not greetings[greeting]:
        return ChatFile()
    return ChatFile(messages=(ChatMessage(name=character.name, mes=greetings[greeting]),))


def _limited_preset(preset: silly_tavern.Preset, options: BuildOptions) -> silly_tavern.Preset:
    changes: dict[str, object] = {}
    if options.context_length is not None:
        changes["openai_max_context"] = options.context_length
    if options.response_length is not None:
        changes["openai_max_tokens"] = options.response_length
    limited = preset.replace(**changes) if changes else preset
    return limited.with_model(options.model) if options.model else limited


def _limited_risu_preset(preset: risu_ai.Preset, options: BuildOptions) -> risu_ai.Preset:
    changes = {
        "max_context": options.context_length,
        "max_response": options.response_length,
        "ai_model": options.model or None,
    }
    return preset.replace(**{name: value for name, value in changes.items() if value is not None})


def _world_reader(file: FileRef) -> Callable[[bytes, WarningLog], silly_tavern.WorldBook]:
    name = Path(file.name).stem
    return lambda data, warn: world_book(parse_book(data, file.name, warn), name)


def _risu_preset_reader(file: FileRef) -> Callable[[bytes, WarningLog], risu_ai.Preset]:
    from tavernkit.risu_ai import Preset

    return lambda data, warn: Preset.load(data, name=Path(file.name).name, warn=warn)


def _risu_book_reader(file: FileRef) -> Callable[[bytes, WarningLog], risu_ai.Lorebook]:
    from tavernkit.risu_ai import Lorebook

    return lambda data, warn: Lorebook.from_json(
        parse_book(data, file.name, warn), name=Path(file.name).stem, warn=warn
    )


def _risu_script_reader(name: str) -> Callable[[bytes, WarningLog], Sequence[risu_ai.RegexScript]]:
    from tavernkit.risu_ai import read_scripts

    return lambda data, warn: read_scripts(parse_json(data, what="regex scripts", warn=warn), name, warn)


def _module_reader(name: str) -> Callable[[bytes, WarningLog], risu_ai.RisuModule]:
    from tavernkit.risu_ai import read_module

    return lambda data, warn: read_module(data, name=Path(name).stem, new_id=None)
