"""Saves: what is in a file, what RisuAI makes of it at start-up, and what it sends from it."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
from datetime import UTC, datetime
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from tavernkit.cards._source import PathSource
from tavernkit.risu_ai._files.backup_file import read_index
from tavernkit.risu_ai._files.database_codec import BUILT_IN_PRESET, DatabaseError, Decoder, Packed
from tavernkit.risu_ai._files.message_pack import BigInteger
from tavernkit.risu_ai._files.save import Save
from tavernkit.risu_ai._memory import MemoryModels
from tavernkit.risu_ai._sending.exchange import drive
from tavernkit.risu_ai._sending.send import Send
from tavernkit.stores._variables import InMemoryVariablesStore
from tests.conformance.adapters.risu_ai.build import TEXTS as BUILD_TEXTS
from tests.conformance.adapters.risu_ai.build import Replies, masked
from tests.conformance.adapters.risu_ai.build import stored as stored_chat
from tests.conformance.adapters.risu_ai.memory import letters
from tests.conformance.runner import Case, differences

NOW = 1709787845678
DEFAULT_TEXT = "<<RISU_DEFAULT_TEXT>>"
TEXTS = dataclasses.replace(
    BUILD_TEXTS,
    main_prompt=DEFAULT_TEXT,
    jailbreak=DEFAULT_TEXT,
    additional_prompt=DEFAULT_TEXT,
    description_prefix=DEFAULT_TEXT,
)
NOT_RECORDED = {"sdData", "newGenData", "voicevoxConfig", "hfTTS", "lastInteraction", "creation_date"}
LOADED = {
    "PresensePenalty", "additionalPrompt", "aiModel", "bias", "botPresets", "botPresetsId", "characterOrder",
    "characters", "chatCompression", "customBackground", "customFlags", "customPromptTemplateToggle",
    "customTokenizer", "descriptionPrefix", "enableCustomFlags", "enabledModules", "formatingOrder",
    "formatversion", "frequencyPenalty", "globalChatVariables", "globalNote", "globalscript", "groupOtherBotRole",
    "groupTemplate", "hypaAllocatedTokens", "hypaChunkSize", "hypaModel", "hypaV3", "hypaV3PresetId",
    "instructChatTemplate", "jailbreak", "jailbreakToggle", "loreBook", "loreBookDepth", "loreBookPage",
    "loreBookToken", "mainPrompt", "maxContext", "maxResponse", "maxSupaChunkSize", "moduleIntergration",
    "modules", "personaPrompt", "personas", "presetRegex", "promptPreprocess", "promptSettings", "promptTemplate",
    "selectedPersona", "subModel", "supaMemoryPrompt", "supaModelType", "systemContentReplacement",
    "systemRoleReplacement", "temperature", "templateDefaultVariables", "top_p", "useInstructPrompt",
    "useSayNothing", "userIcon", "userNote", "username",
}  # fmt: skip
"""The keys that were recorded."""

UNDEFINED: Packed = {"$undefined": True}
DEFAULT_PRESET = "<<RISU_DEFAULT_PRESET>>"


def run(case: Case) -> object:
    return {"read": read, "load": load, "send": send}[case.input["op"]](case)


def read(case: Case) -> object:
    path = case.folder / case.input["file"]
    decoder = Decoder(remote=companions(case), undefined=UNDEFINED, warn=lambda _: None)
    if case.input["kind"] == "database":
        try:
            return {"decoded": as_file(case, "decoded", decoder.decode(path.read_bytes()))}
        except DatabaseError:
            return {"decoded": None, "error": True}
    entries: list[object] = []
    decoded: object = None
    for entry in read_index(PathSource(path)).entries:
        data = entry.read()
        if entry.is_database:
            try:
                decoded = decoder.decode(data)
            except DatabaseError:
                return {"finished": False, "entries": entries, "error": True, "decoded": None}
        about = {"size": entry.size, "sha256": hashlib.sha256(data).hexdigest()}
        entries.append({"database": True, **about} if entry.is_database else {"name": entry.name, **about})
    found = None if decoded is None else as_file(case, "decoded", decoded)
    return {"finished": True, "entries": entries, "decoded": found}


def load(case: Case) -> object:
    try:
        save = loaded(case)
    except DatabaseError:
        return {"ok": False}
    database = {key: value for key, value in save.database.items() if key in LOADED}
    characters: Any = database["characters"]
    database["characters"] = [
        {key: value for key, value in each.items() if key not in NOT_RECORDED} for each in characters
    ]
    assets = sorted(save.used_assets.items())
    return {
        "ok": True,
        "loaded": as_file(case, "loaded", database),
        "assets": [
            {"key": f"assets/{name}", "size": each.size, "sha256": hashlib.sha256(each.read()).hexdigest()}
            for name, each in assets
        ],
    }


def send(case: Case) -> object:
    given = case.input
    dice = cycle(given["random"])
    variables = InMemoryVariablesStore()
    models = MemoryModels(summarize=lambda _: "OK.", embed=letters, default_prompt="<<RISU_DEFAULT_SUMMARY_PROMPT>>")
    builder = (
        loaded(case)
        .builder(
            given["character"],
            given.get("chat"),
            persona=given.get("persona"),
            preset=given.get("preset"),
        )
        .replace(
            message=given["text"],
            clock=lambda: moment(given["now"]),
            random=lambda: next(dice),
            memory=models,
            warn=None,
        )
    )
    context = builder.make_context()
    for scope, stored in context.variables.to_dict().items():  # type: ignore[attr-defined]
        for name, value in stored.items():
            variables.set(name, value, scope)
    model = Replies(given.get("replies", ["OK."]))
    sending = Send(builder, context.replace(variables=variables))
    sent = drive(sending.run(), model)
    found = stored_chat(sending.chat, sent.variables, {"variables": variables})
    return {"ok": sent.ok, "requests": model.requests, "stored": found}


def loaded(case: Case) -> Save:
    listed = case.input.get("companions", {})
    return Save.load(
        case.folder / case.input["file"],
        companions={name: case.folder / path for name, path in listed.items()},
        texts=TEXTS,
        now=moment(case.input.get("now", NOW)),
        salvage=False,
        warn=lambda _: None,
    )


def moment(milliseconds: float) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def companions(case: Case) -> Any:
    listed = case.input.get("companions", {})

    def find(name: str) -> bytes | None:
        path = listed.get(f"remotes/{name}.local.bin")
        return None if path is None else (case.folder / path).read_bytes()

    return find


def as_file(case: Case, key: str, value: object) -> object:
    """The name of the file with the expected value, if this is that value; else how they differ."""
    named = (case.expected.get(key) or {}).get("file")
    if named is None:
        return value
    expected = json.loads(Path(case.folder / named).read_text("utf-8"))
    actual = shown(value)
    found = [*differences(expected, actual), *(f"extra {each}" for each in differences(actual, expected))]
    return list(islice(found, 8)) if found else {"file": named}


def shown(value: object) -> Any:
    """A value with the forms that the recording gave to what JSON has no form for."""
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, BigInteger):
        return {"$bigint": str(int(value))}
    if isinstance(value, datetime):
        return {"$date": value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")}
    if value == BUILT_IN_PRESET:
        return DEFAULT_PRESET
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    return [shown(item) for item in value] if isinstance(value, (list, tuple)) else value
