"""Provenance: readable descriptions of where pieces of a prompt came from."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tavernkit._values import FrozenJson, FrozenObject

TITLES: Mapping[str, str] = {
    "main": "Main Prompt",
    "nsfw": "Auxiliary Prompt",
    "jailbreak": "Post-History Instructions",
    "enhanceDefinitions": "Enhance Definitions",
    "worldInfoBefore": "World Info before the character",
    "worldInfoAfter": "World Info after the character",
    "charDescription": "the character's description",
    "charPersonality": "the character's personality",
    "scenario": "the scenario",
    "personaDescription": "Persona Description",
    "dialogueExamples": "example dialogue",
    "chatHistory": "the chat",
    "newMainChat": "New Chat",
    "newChat": "New Example Chat",
    "impersonate": "Impersonation Prompt",
    "continueNudge": "Continue Nudge",
    "groupNudge": "Group Nudge",
    "quietPrompt": "Quiet Prompt",
    "bias": "Start Reply With",
    "send_if_empty": "Replace Empty Message",
}
"""Readable names of SillyTavern's own prompts, by identifier."""

CARD_FIELD = "a field of the card"
OWN_PERSONA = "the user's persona"


def field_reason(name: str, of_chat: Collection[str]) -> str:
    """Return why a card's field is there; the chat's header may store another text for it."""
    return f"{name} of the chat's header, instead of the card's" if name in of_chat else CARD_FIELD


def source(stage: str, kind: str, id: object, title: str, reason: str, **more: FrozenJson) -> FrozenObject:  # noqa: A002  # the key's name
    """Provenance of a piece: the step, what it is, which one, what people call it and why it is there."""
    return {
        "stage": stage,
        "kind": kind,
        "id": id if isinstance(id, int) else str(id),
        "title": title,
        "reason": reason,
        **more,
    }


def message_source(
    stage: str, index: int, name: str, reason: str = "message of the chat", additions: str = ""
) -> FrozenObject:
    """Provenance of a message of the chat; its number is the one SillyTavern shows.

    ``additions`` says what else is in its text: attached files, reasoning.
    """
    title = f"message #{index} of {name}" if name else f"message #{index}"
    return {"stage": stage, "kind": "history", "id": index, "name": name, "title": title, "reason": reason + additions}


def title_of(found: FrozenObject) -> str:
    """What people call the piece."""
    return str(found.get("title") or found.get("id") or "")


def reason_of(found: FrozenObject) -> str:
    """Why the piece is there."""
    return str(found.get("reason") or "")
