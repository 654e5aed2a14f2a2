"""Media tags through the display stage; paths resolve as they did when the vectors were recorded."""

from __future__ import annotations

from typing import Any

from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._cbs.media import MediaSettings, ShownInlay, replace_assets, replace_inlays
from tavernkit.risu_ai._objects import RisuCharacter, RisuSettings
from tests.conformance.runner import Case


def run(case: Case) -> object:
    given = case.input
    if given["stage"] == "inlay":
        return {"output": inlays(given)}
    return {"output": assets(given)}


def assets(given: dict[str, Any]) -> str:
    db = given["db"]
    context = CBSContext(
        char=RisuCharacter.from_json(given["char"]),
        settings=RisuSettings.from_json(db),
        chat_index=given["ch"],
    )
    settings = MediaSettings(
        user_icon=db["userIcon"],
        max_difference=db["assetMaxDifference"],
        legacy_findings=db["legacyMediaFindings"],
        width=db["assetWidth"],
        hide_all_images=db.get("hideAllImages", False),
    )
    return replace_assets(
        given["text"],
        context,
        lambda path: f"https://sv.risuai.xyz/rs/{path}",
        settings=settings,
        background=given["mode"] == "back",
    )


def inlays(given: dict[str, Any]) -> str:
    stored = {name: ShownInlay(each["type"], "blob:inlay") for name, each in given["inlays"].items()}
    return replace_inlays(given["text"], stored, hide_all_images=given.get("db", {}).get("hideAllImages", False))
