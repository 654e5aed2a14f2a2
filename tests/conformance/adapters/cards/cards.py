"""Character card files through SillyTavern's importer, editor, validator and PNG writer; RisuAI's modules."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tavernkit._text.js_values import json_parse
from tavernkit.cards import Limits, load
from tavernkit.cards._risum import rpack_encode
from tavernkit.cards._silly_tavern import create, export_card, import_file
from tavernkit.cards._silly_tavern.importing import read_chunks, write_card_text
from tavernkit.cards._silly_tavern.stored import ImportRefusedError
from tavernkit.errors import TavernKitError
from tavernkit.silly_tavern import check_card
from tests.conformance.runner import Case

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)

# SillyTavern has no limits; the vector with a card of 5 MB in 5 KB needs these two raised.
LIMITS = Limits(max_json_bytes=16 * 1024 * 1024, max_compression_ratio=2000, allow_encrypted=True)


def run(case: Case) -> object:
    return OPERATIONS[case.input["operation"]](case)


def import_(case: Case) -> dict[str, Any]:
    fields = case.input.get("fields", {})
    data = (case.folder / case.input["file"]).read_bytes()
    try:
        imported = import_file(
            data,
            case.input["file_type"],
            now=NOW,
            preserved_name=fields.get("preserved_name"),
            limits=LIMITS,
        )
    except ImportRefusedError:
        return {"http_status": 400, "ok": False}
    except TavernKitError:
        return {"http_status": 200, "ok": False, "error": True}
    chunks = read_chunks(imported.png, LIMITS)
    texts = {chunk["keyword"]: json_parse(chunk["decoded"]) for chunk in text_chunks(imported.png)}
    stored = texts["chara"]
    assert isinstance(stored, dict)
    result: dict[str, Any] = {
        "http_status": 200,
        "ok": True,
        "file_name": imported.file_name,
        "stored": stored,
        "ccv3_is_stored_with_v3_spec": texts["ccv3"] == {**stored, "spec": "chara_card_v3", "spec_version": "3.0"},
        "text_keywords": list(texts),
        "exported_json": export_card(imported.png, LIMITS),
        "avatar_size": list(struct.unpack_from(">II", chunks[0].data)),
        "chunk_names": chunk_names(imported.png),
    }
    if imported.files:
        written = [{"path": file.path, "bytes": len(file.data)} for file in imported.files]
        result["other_files_written"] = sorted(written, key=lambda file: file["path"])
    if imported.chats:
        result["chats_created"] = sorted(name for name, _ in imported.chats)
        result["chat_lines"] = list(imported.chats[0][1])
    return result


def create_(case: Case) -> dict[str, Any]:
    stored = create(case.input["form"], NOW)
    return {"http_status": 200, "ok": True, "file_name": stored["name"], "stored": stored}


def validate(case: Case) -> dict[str, Any]:
    found = check_card(case.input["card"])
    return {"result": found.version or False, "last_error": found.last_error}


def png_write(case: Case) -> dict[str, Any]:
    data = (case.folder / case.input["file"]).read_bytes()
    try:
        written = write_card_text(read_chunks(data, LIMITS), case.input["data"], LIMITS)
    except TavernKitError:
        return {"error": True}
    return {"chunk_names": chunk_names(written), "text_chunks": text_chunks(written)}


def rpack(case: Case) -> dict[str, Any]:
    return {"hex": rpack_encode(bytes.fromhex(case.input["hex"])).hex()}


def risum_decode(case: Case) -> dict[str, Any]:
    try:
        module = load(case.folder / case.input["file"], strict=True).module
    except TavernKitError:
        return {"ok": False}
    assert module is not None
    return {"ok": True, "module": module.to_json(), "assets_hex": [asset.read().hex() for asset in module.assets]}


def chunk_names(png: bytes) -> list[str]:
    return [chunk.kind.decode() for chunk in read_chunks(png, LIMITS)]


def text_chunks(png: bytes) -> list[dict[str, str]]:
    texts = [chunk for chunk in read_chunks(png, LIMITS) if chunk.kind == b"tEXt"]
    return [{"keyword": chunk.keyword, "decoded": chunk.text} for chunk in texts]


OPERATIONS: dict[str, Callable[[Case], dict[str, Any]]] = {
    "import": import_,
    "create": create_,
    "validate": validate,
    "png_write": png_write,
    "rpack_encode": rpack,
    "risum_decode": risum_decode,
}
