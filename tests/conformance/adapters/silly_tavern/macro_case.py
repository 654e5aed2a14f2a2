"""The format that the macro vectors of both engines share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from tavernkit.cards import Character
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._group import Group, GroupChat
from tavernkit.silly_tavern._macros import (
    AuthorsNotes,
    ChatVariables,
    Diagnostic,
    ExpressionSettings,
    ExtensionValues,
    MacroEnvironment,
    MacroMemory,
)

REFERENCE_KINDS = ("syntax", "runtime_warning", "internal_error", "v1_replace_failed")
POST_PROCESSORS: dict[str, Callable[[str], str]] = {
    "upper": str.upper,
    "bracket": lambda text: f"[{text}]",
}


@dataclass
class MacroCase:
    """The environment of a case, and what is looked at after it ran."""

    environment: MacroEnvironment
    metadata: dict[str, Any]
    global_variables: dict[str, Any]
    draws: list[float] = field(default_factory=list)

    def outcome(self, text: str, diagnostics: tuple[Diagnostic, ...], **more: object) -> dict[str, object]:
        memory = self.environment.memory
        return {
            "output": text,
            "variables": as_json({"local": self.metadata.get("variables"), "global": self.global_variables}),
            "diagnostics": [described(each) for each in diagnostics if each.kind in REFERENCE_KINDS],
            "banned_words": memory.banned_words,
            "chat_id_hash": memory.chat_id_hash,
            "random_used": len(self.draws),
            **more,
        }


def as_json(value: Any) -> Any:
    """What a file holds: JSON has no infinities, JavaScript writes null."""
    if isinstance(value, dict):
        return {key: as_json(each) for key, each in value.items()}
    if isinstance(value, list):
        return [as_json(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def described(diagnostic: Diagnostic) -> dict[str, object]:
    if diagnostic.kind == "syntax":
        return {"kind": "syntax", "phase": diagnostic.phase, "count": diagnostic.count}
    return {"kind": diagnostic.kind, "about": diagnostic.about, "macro": diagnostic.macro}


def read_case(env: Mapping[str, Any]) -> MacroCase:
    variables = env.get("variables", {})
    metadata = dict(env.get("chat_metadata", {}))
    if variables.get("local") is not None:
        metadata["variables"] = dict(variables["local"])
    global_variables = dict(variables.get("global", {}))
    stated, used = list(env.get("random", ())), list[float]()

    def draw() -> float:
        used.append(stated[len(used)])
        return used[-1]

    clock = env.get("clock", {"now": "2031-03-05T14:07:09.000Z", "tz": "UTC"})
    power_user = env.get("power_user", {})
    notes, expressions = env.get("notes", {}), env.get("expressions", {})
    image = env.get("image_prefix", {})
    group = read_group(env)
    environment = MacroEnvironment(
        user_name=env.get("user", ""),
        character_name=env.get("char", ""),
        character=read_character(env, group),
        persona=env.get("persona", ""),
        group=group,
        chat=[ChatMessage.from_json(line) for line in env.get("chat", ())],
        chat_id=env.get("chat_id"),
        main_chat=metadata.get("main_chat"),
        pick_reroll_seed=metadata.get("pick_reroll_seed"),
        scenario_override=metadata.get("scenario") or "",
        examples_override=metadata.get("mes_example") or "",
        system_prompt_override=metadata.get("system_prompt") or "",
        first_included_message_id=metadata.get("lastInContextMessageId"),
        first_displayed_message_id=env.get("first_displayed_message_id"),
        variables=ChatVariables(metadata, global_variables),
        memory=read_memory(env, metadata),
        main_api=env.get("main_api", "openai"),
        model=env.get("model", "test-model"),
        max_context=env.get("max_context", 8192),
        max_response=env.get("max_response", 512),
        input=env.get("send_textarea", ""),
        is_mobile=env.get("mobile", False),
        outlets=env.get("outlets", {}),
        instruct=settings("instruct", power_user.get("instruct")),
        system_prompt=settings("system_prompt", power_user.get("sysprompt")),
        context=settings("context", power_user.get("context")),
        reasoning=settings("reasoning", power_user.get("reasoning")),
        notes=AuthorsNotes(
            chat=metadata.get("note_prompt") or "",
            character=notes.get("character", ""),
            default=notes.get("default", ""),
        ),
        extensions=ExtensionValues(
            enabled=[name for name, on in env.get("extensions", {}).items() if on],
            summary=env.get("summary_box", ""),
            image_prefix=image.get("positive", ""),
            image_negative_prefix=image.get("negative", ""),
            expressions=ExpressionSettings(
                fallback=expressions.get("fallback_expression", ""), show_emoji=expressions.get("showDefault", False)
            ),
        ),
        prefer_character_prompt=power_user.get("prefer_character_prompt", True),
        prefer_character_jailbreak=power_user.get("prefer_character_jailbreak", True),
        collapse_newlines=power_user.get("collapse_newlines", False),
        clock=lambda: datetime.fromisoformat(clock["now"]),
        timezone=UTC if clock["tz"] == "UTC" else ZoneInfo(clock["tz"]),
        random=draw,
    )
    return MacroCase(environment, metadata, global_variables, used)


def settings(name: str, data: Mapping[str, Any] | None) -> Any:
    """The environment's own settings with what a case gives."""
    default = getattr(MacroEnvironment(), name)
    return default.replace(**{key: value for key, value in (data or {}).items() if key in default.field_names()})


def read_character(env: Mapping[str, Any], group: GroupChat | None) -> Character | None:
    if group is not None:
        return next((member.character for member in group.members if member.name == env.get("char")), None)
    data = env.get("character", {} if env.get("chat_id") is not None else None)
    return None if data is None else card(data)


def card(data: Mapping[str, Any]) -> Character:
    return Character.from_card({"spec": "chara_card_v2", "data": data}, warn=lambda _: None)


def read_group(env: Mapping[str, Any]) -> GroupChat | None:
    data = env.get("group")
    if data is None:
        return None
    known = {each["avatar"]: card(each) for each in data.get("characters", ())}
    chat = GroupChat.of(Group.from_json(data), known)
    speaker = next((member.avatar for member in chat.members if member.name == env.get("char")), None)
    return replace(chat, speaker=speaker)


def read_memory(env: Mapping[str, Any], metadata: Mapping[str, Any]) -> MacroMemory:
    memory = MacroMemory()
    for event in env.get("last_generation_events", ()):
        if event == "CHAT_CHANGED":
            memory.chat_changed()
        else:
            memory.generation_started(event.get("type"), dry_run=event.get("dry_run", False))
    memory.chat_id_hash = metadata.get("chat_id_hash")
    return memory
