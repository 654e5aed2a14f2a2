"""What applies to all chats: the platforms' settings and SillyTavern's global regex scripts, each kept as one item."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit import silly_tavern as st
from tavernkit._values import JsonObject, is_object, is_sequence, thaw
from tavernkit.cards import parse_json
from tavernkit.errors import Warn
from tavernkit.server.errors import ServiceError
from tavernkit.server.library.library import (
    CHAT_SETTINGS,
    GLOBAL_SCRIPTS,
    REFUSED_SCRIPTS,
    RISU_AI,
    SILLY_TAVERN,
    parse_item,
    read_refusals,
    version_of,
)
from tavernkit.server.limits import MAX_SCRIPTS, MAX_SETTINGS_CHARACTERS
from tavernkit.server.storage.database import advisory_lock
from tavernkit.server.storage.items import ItemInfo, infos, item_file, save_item
from tavernkit.server.storage.tables import new_id

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


async def save_scripts(connection: AsyncConnection, scripts: Sequence[JsonObject]) -> list[JsonObject]:
    """Store the scripts, migrated as SillyTavern does when it loads them."""
    kind, item_id = GLOBAL_SCRIPTS
    if len(scripts) > MAX_SCRIPTS:
        raise ServiceError(422, f"there would be more than {MAX_SCRIPTS} global scripts", code="too_many_scripts")
    migrated = [st.migrate_script(script, new_id=new_id) for script in scripts]
    await save_item(
        connection,
        kind,
        name=item_id,
        platform=SILLY_TAVERN,
        file=json.dumps(migrated).encode(),
        filename="regex.json",
        item_id=item_id,
    )
    return migrated


async def global_scripts(connection: AsyncConnection) -> list[JsonObject]:
    """Return the stored scripts."""
    if GLOBAL_SCRIPTS not in await infos(connection, [GLOBAL_SCRIPTS]):
        return []
    found = parse_item("regex", SILLY_TAVERN, "global", await item_file(connection, *GLOBAL_SCRIPTS))
    return [script for script in found if is_object(script)] if is_sequence(found) else []


async def add_scripts(connection: AsyncConnection, scripts: Sequence[JsonObject]) -> int:
    """Add scripts after the existing ones; a script with the same id replaces the old one. Return how many were new."""
    kept = await global_scripts(connection)
    scripts = [script for script in scripts if not _is_among(kept, st.migrate_script(script, new_id=lambda: ""))]
    by_id = {own: script for script in scripts if (own := _id_of(script))}
    merged = [by_id.pop(_id_of(script), script) for script in kept]
    merged += [script for script in scripts if not (own := _id_of(script)) or own in by_id]
    if scripts:
        await save_scripts(connection, merged)
    return len(scripts)


def _id_of(script: JsonObject) -> str:
    """Return a script's id; empty if it has none, or one that is not text."""
    own = script.get("id")
    return own if isinstance(own, str) else ""


def _is_among(kept: Sequence[JsonObject], script: JsonObject) -> bool:
    """Return True if a script is there already; one without an id is recognised by everything else."""
    return any(script == {**each, "id": script.get("id") and each.get("id")} for each in kept)


async def refuse_scripts(connection: AsyncConnection, info: ItemInfo) -> None:
    """Note that the regex scripts of this version of a character or preset do not run."""
    kind, item_id = REFUSED_SCRIPTS
    await advisory_lock(connection, item_id)
    known = await infos(connection, [REFUSED_SCRIPTS])
    refused = read_refusals(json.loads(await item_file(connection, kind, item_id)) if known else None)
    content = {"versions": sorted(refused | {version_of(info)}, key=str)}
    await save_item(
        connection,
        kind,
        name=item_id,
        platform=SILLY_TAVERN,
        file=json.dumps(content).encode(),
        filename=f"{item_id}.json",
        item_id=item_id,
    )
