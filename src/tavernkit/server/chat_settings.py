"""SillyTavern's settings of chats, kept as one item of the library."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit import silly_tavern as st
from tavernkit._values import JsonObject, is_object, thaw
from tavernkit.cards import parse_json
from tavernkit.errors import Warn
from tavernkit.server.errors import ServiceError
from tavernkit.server.library import CHAT_SETTINGS, SILLY_TAVERN
from tavernkit.server.limits import MAX_SETTINGS_CHARACTERS
from tavernkit.server.storage.items import infos, item_file, save_item

NAMES = (
    "collapse_newlines",
    "pin_examples",
    "strip_examples",
    "prefer_character_prompt",
    "prefer_character_jailbreak",
    "user_prompt_bias",
    "custom_stopping_strings",
    "custom_stopping_strings_macro",
    "media_display",
    "trim_spaces",
    "trim_sentences",
    "single_line",
    "auto_fix_generated_markdown",
    "allow_name1_display",
    "allow_name2_display",
    "disable_group_trimming",
    "reasoning",
    "instruct",
    "context",
    "sysprompt",
    "always_force_name2",
    "tokenizer",
    "token_padding",
)
"""What of ``power_user`` shapes prompts or is part of the clean-up of replies."""


def chosen_settings(power_user: Mapping[str, object]) -> JsonObject:
    """What is kept of ``power_user``."""
    return {name: thaw(power_user[name]) for name in NAMES if name in power_user}


def checked_settings(settings: JsonObject, warn: Warn) -> JsonObject:
    """Settings that a client brings; wrong values are reported, unknown names refused."""
    unknown = [name for name in settings if name not in NAMES]
    if unknown:
        message = f"there is no setting {unknown[0]!r:.200} of chats"
        raise ServiceError(422, message, code="unknown_setting", param=unknown[0][:200])
    if len(json.dumps(settings)) > MAX_SETTINGS_CHARACTERS:
        message = f"the settings of chats are longer than {MAX_SETTINGS_CHARACTERS} characters"
        raise ServiceError(422, message, code="settings_too_long")
    st.PowerUser.from_json(settings, warn=warn)
    return settings


async def stored_settings(connection: AsyncConnection) -> JsonObject | None:
    """The settings of all chats, if there are any."""
    if CHAT_SETTINGS not in await infos(connection, [CHAT_SETTINGS]):
        return None
    found = parse_json(await item_file(connection, *CHAT_SETTINGS), what="settings", warn=lambda _: None)
    return found if is_object(found) else {}


async def save_settings(connection: AsyncConnection, settings: JsonObject) -> None:
    """Store the settings of all chats."""
    kind, item_id = CHAT_SETTINGS
    file = json.dumps(settings).encode()
    await save_item(
        connection,
        kind,
        name=item_id,
        platform=SILLY_TAVERN,
        file=file,
        filename="settings.json",
        item_id=item_id,
    )
