"""What chats, settings and data folders carry into a prompt."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from tavernkit.silly_tavern._chat.vector_storage import VectorCall, VectorResults
from tests.conformance.adapters.silly_tavern.build_group_folder import generation
from tests.conformance.adapters.silly_tavern.folder_inputs import CHAT, data_folder
from tests.conformance.runner import VECTORS, Case


@cache
def settings() -> Any:
    return json.loads((VECTORS / "silly_tavern" / "chat_extras.settings.json").read_text("utf-8"))


def run(case: Case) -> object:
    given = case.input
    with data_folder(given, settings()) as folder:
        place = {"group": "group"} if "group" in given else {"character": given["card"]["data"]["name"], "chat": CHAT}
        persona = folder.persona(**place)
        vectors = VectorResults.from_json(given["vectors"]) if "vectors" in given else None
        plan: Any = folder.builder(**place).build(**generation(given["generate"]), vectors=vectors)
        # SillyTavern sends nothing when a file cannot be read; we leave the file out and say so.
        missing = [each.id for each in plan.omissions if each.kind == "attachment"]
        return {
            **plan.to_request(),
            "user_name": persona.name,
            "user_avatar": persona.avatar,
            "no_request": bool(missing),
            "vector_calls": [shown(call) for call in plan.vector_calls],
        }


def shown(call: VectorCall) -> dict[str, object]:
    if call.call == "insert":
        items = [{"text": item.text, "index": item.index} for item in call.items]
        return {"call": call.call, "collection": call.collections[0], "items": items}
    several = call.call == "query-multi"
    return {
        "call": call.call,
        **({"collections": list(call.collections)} if several else {"collection": call.collections[0]}),
        "search_text": call.search_text,
        "top_k": call.top_k,
        "threshold": call.threshold,
    }
