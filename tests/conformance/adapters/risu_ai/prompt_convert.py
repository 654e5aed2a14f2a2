"""SillyTavern's files put together to one preset."""

from __future__ import annotations

import json

from tavernkit.errors import InvalidPresetError
from tavernkit.risu_ai._files.preset import Preset
from tavernkit.risu_ai._files.silly_tavern_preset import StFile, preset_from_files
from tests.conformance.runner import Case


def run(case: Case) -> object:
    files = [StFile(file["type"], json.loads(file["content"])) for file in case.input["files"]]
    try:
        preset = preset_from_files(files)
    except InvalidPresetError:
        return {"added": False, "alert": "error"}
    return {"added": True, **Preset().to_json(), **preset.to_json()}
