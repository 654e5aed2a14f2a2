from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from tavernkit._text.js_values import utf16_length
from tavernkit.budget import get_tokenizer
from tavernkit.risu_ai._lorebook import LorebookEngine, LorebookSettings, ScanInput, lore_of
from tavernkit.risu_ai.errors import DecoratorParseError
from tests.conformance.adapters.risu_ai.risu_inputs import context_of, database
from tests.conformance.runner import Case


def counter(given: Any) -> Callable[[str], int]:
    name = given.get("tokenizer", "chars")
    return utf16_length if name == "chars" else get_tokenizer(name).count


def run(case: Case) -> object:
    given = case.input
    context = context_of(given)
    randoms = itertools.cycle(given.get("random", [0.5]))
    stored = context.variables.to_dict().get("local", {})  # type: ignore[attr-defined]
    marked = {name: value for name, value in stored.items() if name.startswith("__internal_")}
    db = database(given)
    settings = LorebookSettings(scan_depth=db.get("loreBookDepth", 5), token_budget=db.get("loreBookToken", 800))
    lore = lore_of(context, settings)
    scan = ScanInput(
        entries=lore.entries,
        messages=lore.messages,
        settings=lore.settings,
        greeting_index=context.chat.greeting_index,
        count_tokens=counter(given),
        random=lambda: next(randoms),
        chat_variable=context.chat_variable,
        strict=True,
    )
    try:
        result = LorebookEngine().scan(scan)
    except DecoratorParseError:
        return {"error": "TypeError"}
    return {
        "actives": [
            {
                "source": each.source,
                "text": each.text,
                "pos": each.pos,
                "depth": each.depth,
                "role": each.role,
                "order": each.order,
                "priority": None if isinstance(each.priority, float) and math.isnan(each.priority) else each.priority,
                "tokens": each.tokens,
                "inject": each.inject
                and {
                    "operation": each.inject.operation,
                    "location": each.inject.location,
                    "param": each.inject.param,
                    "lore": each.inject.lore,
                },
            }
            for each in result.actives
        ],
        "match_log": [{"source": hit.source, "activated": hit.key} for hit in result.hits],
        "chat_vars": {**marked, **result.markers},
    }
