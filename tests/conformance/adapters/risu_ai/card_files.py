"""Character card files through RisuAI's importer and CharX exporter."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

from tavernkit.cards import load
from tavernkit.cards._png import placeholder_png
from tavernkit.cards._risu_ai import ImportRefusedError, ImportThrewError, export_charx, import_file
from tavernkit.errors import TavernKitError
from tests.conformance.runner import Case

IMAGE = placeholder_png(1, 1)
STORED = {"@A": b"asset-A", "@B": b"asset-B", "@C": b"asset-C", "@image": IMAGE}


def run(case: Case) -> object:
    return import_(case) if case.input["op"] == "import" else export(case)


def import_(case: Case) -> dict[str, Any]:
    data = base64.b64decode(case.input["file_base64"])
    try:
        imported = import_file(case.input["file_name"], data, new_id=lambda: "<<uuid>>")
    except ImportRefusedError:
        return {"imported": False, "error": None, "alert": "error"}
    except ImportThrewError as error:
        return {"imported": False, "error": error.error, "alert": "progress" if error.in_progress else None}
    except TavernKitError:
        return {"imported": False, "error": "Error", "alert": None}
    return {"imported": True, "character": imported.character}


def export(case: Case) -> dict[str, Any]:
    character = {**default_character(case.folder), "image": "@image", **case.input["character"]}
    data = export_charx(character, STORED.__getitem__, now=-1, new_id=lambda: "<<uuid>>")
    module = load(data).module
    assert module is not None
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        card = json.loads(archive.read("card.json"))
        members = archive.namelist()
        assets = {name: archive.read(name) for name in members if name.startswith("assets/")}
    card["data"]["modification_date"] = "<<now>>" if card["data"]["modification_date"] == -1 else None
    return {
        "zip_members": members,
        "card": card,
        "module": module.to_json(),
        "asset_texts": {name: "<<image>>" if each == IMAGE else each.decode() for name, each in assets.items()},
    }


@cache
def default_character(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "risu_build_defaults.json").read_text(encoding="utf-8"))["character"]
