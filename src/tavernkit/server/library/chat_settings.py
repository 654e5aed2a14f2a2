"""The platforms' settings of chats, kept as one item of the library for each."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit import silly_tavern as st
from tavernkit._values import JsonObject, is_object, thaw
from tavernkit.cards import parse_json
from tavernkit.errors import Warn
from tavernkit.server.errors import ServiceError
from tavernkit.server.library.library import CHAT_SETTINGS, RISU_AI, SILLY_TAVERN
from tavernkit.server.limits import MAX_SETTINGS_CHARACTERS
from tavernkit.server.storage.items import infos, item_file, save_item

NAMES: Mapping[str, tuple[str, ...]] = {
    SILLY_TAVERN: (
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
    ),
    RISU_AI: (
        "loreBookDepth",
        "loreBookToken",
        "jailbreakToggle",
        "chainOfThought",
        "additionalPrompt",
        "descriptionPrefix",
        "enabledModules",
        "autoContinueChat",
        "autoContinueMinTokens",
        "removeIncompleteResponse",
        "banCharacterset",
        "igpPrompt",
        "useSayNothing",
    ),
}
"""What of SillyTavern's ``power_user`` and of RisuAI's database shapes prompts or replies; presets hold the rest."""


def chosen_settings(settings: Mapping[str, object], platform: str) -> JsonObject:
    """What is kept of ``power_user``, or of RisuAI's database."""
    return {name: thaw(settings[name]) for name in NAMES[platform] if name in settings}


def checked_settings(settings: JsonObject, platform: str, warn: Warn) -> JsonObject:
    """Check settings from a client; wrong values are reported, unknown names refused.

    Args:
        settings: The settings.
        platform: Whose they are.
        warn: Called with each warning.
    """
    unknown = [name for name in settings if name not in NAMES[platform]]
    if unknown:
        message = f"there is no setting {unknown[0]!r:.200} of chats"
        raise ServiceError(422, message, code="unknown_setting", param=unknown[0][:200])
    if len(json.dumps(settings)) > MAX_SETTINGS_CHARACTERS:
        message = f"the settings of chats are longer than {MAX_SETTINGS_CHARACTERS} characters"
        raise ServiceError(422, message, code="settings_too_long")
    if platform == RISU_AI:
        from tavernkit import risu_ai

        risu_ai.Settings.from_json(settings, warn=warn)
    else:
        st.PowerUser.from_json(settings, warn=warn)
    return settings


async def stored_settings(connection: AsyncConnection, platform: str) -> JsonObject | None:
    """The settings of all chats of a platform, if there are any."""
    stored = CHAT_SETTINGS[platform]
    if stored not in await infos(connection, [stored]):
        return None
    found = parse_json(await item_file(connection, *stored), what="settings", warn=lambda _: None)
    return found if is_object(found) else {}


async def save_settings(connection: AsyncConnection, settings: JsonObject, platform: str) -> None:
    """Store the settings of all chats.

    Args:
        connection: The database.
        settings: The settings.
        platform: Whose they are.
    """
    kind, item_id = CHAT_SETTINGS[platform]
    file = json.dumps(settings).encode()
    await save_item(
        connection,
        kind,
        name=item_id,
        platform=platform,
        file=file,
        filename="settings.json",
        item_id=item_id,
    )
