"""Preset and module files."""

from __future__ import annotations

import base64
import math

from tavernkit._values import thaw_object
from tavernkit.risu_ai._files.module_file import read_module
from tavernkit.risu_ai._files.preset import Preset
from tests.conformance.runner import Case


def run(case: Case) -> object:
    name, data = case.input["file_name"], base64.b64decode(case.input["file_base64"])
    if name.endswith(".risum"):
        return {"module": thaw_object(read_module(data, name=name, new_id=lambda: "<<uuid>>").raw)}
    preset = Preset.load(data, name=name)
    built_in = {"mainPrompt": "<<RISU_DEFAULT>>", "jailbreak": "<<RISU_DEFAULT>>", "bias": []}
    written = {**built_in, **Preset().to_json(), **preset.to_json()}
    return {"preset": {key: as_json(value) for key, value in written.items()}}


def as_json(value: object) -> object:
    return None if isinstance(value, float) and math.isnan(value) else value
