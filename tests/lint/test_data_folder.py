"""``lint`` on a whole data folder, laid out as SillyTavern's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.terminal import Tavernkit
from tests.silly_tavern.generated_folder import generate

ORDINARY: dict[str, Any] = {
    "themes/Dark.json": {"name": "Dark", "blur_strength": 10, "main_text_color": "rgba(0,0,0,1)", "custom_css": ""},
    "movingUI/Default.json": {"name": "Default", "movingUIState": {}},
    "user/workflows/Default.json": {"3": {"class_type": "KSampler", "inputs": {"seed": 1}}},
    "QuickReplies/Mine.json": {"version": 2, "name": "Mine", "qrList": [{"label": "a", "message": "/echo a"}]},
    "KoboldAI Settings/Plain.json": {"temp": 0, "rep_pen": 1.18, "sampler_order": [6, 0, 1]},
    "NovelAI Settings/Plain.json": {"order": [1, 2], "temperature": 1.1, "max_length": 150},
    "TextGen Settings/Plain.json": {"temp": 1, "top_p": 1},
    "reasoning/Plain.json": {"name": "Plain", "prefix": "<think>\n", "suffix": "\n</think>", "separator": "\n\n"},
    "secrets.json": {"api_key_openai": []},
    "stats.json": {"timestamp": 1},
    "backups/settings_1.json": {"x": 1},
    "assets/a.json": [],
}
"""Files of every installation that are no cards."""


def test_an_ordinary_data_folder_has_no_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = generate(tmp_path)
    for name, content in ORDINARY.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content), encoding="utf-8")
    outcome = Tavernkit(capsys)("lint", str(tmp_path), "--json")
    found = json.loads(outcome.out)["files"]
    assert [each for file in found for each in file["findings"] if each["severity"] == "error"] == []
    assert outcome.code == 0
    assert len(found) > 40
    assert not any(Path(file["file"]).name in ("Dark.json", "secrets.json", "stats.json") for file in found)
