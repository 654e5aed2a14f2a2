"""What a build's macros see."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tavernkit.cards.character import Character
from tavernkit.silly_tavern.card_fields import depth_prompt_of
from tavernkit.silly_tavern.chat_message import ChatMessage
from tavernkit.silly_tavern.context import SillyTavernContext
from tavernkit.silly_tavern.macros.environment import CardFields, Group, GroupMember, MacroEnvironment
from tavernkit.silly_tavern.macros.settings import AuthorsNotes
from tavernkit.silly_tavern.world_info.selection import file_stem
from tavernkit.stores.variables import VariablesStore
from tavernkit.values import is_mapping


def macro_environment(
    context: SillyTavernContext,
    chat: Sequence[ChatMessage],
    variables: VariablesStore,
    random: Callable[[], float],
) -> MacroEnvironment:
    """The environment at the start of a build; the turn, the outlets and the input change later."""
    metadata, settings, preset = context.metadata, context.settings, context.active_preset
    power_user = settings.power_user
    main_chat, reroll = metadata.get("main_chat"), metadata.get("pick_reroll_seed")
    return MacroEnvironment(
        user_name=context.user_name,
        character_name=context.character_name,
        character=_card_fields(context.card) if context.card is not None else None,
        persona=context.active_persona.description,
        group=_group(context),
        chat=chat,
        chat_id=context.chat_id,
        main_chat=main_chat if isinstance(main_chat, str) else None,
        pick_reroll_seed=reroll if isinstance(reroll, (int, float, str)) else None,
        scenario_override=metadata.scenario,
        examples_override=metadata.mes_example,
        system_prompt_override=metadata.system_prompt,
        first_included_message_id=metadata.get("lastInContextMessageId"),
        variables=variables,
        memory=context.memory,
        main_api=context.main_api,
        model=preset.model if not context.text_completion else context.model_hint or "",
        max_context=context.max_context,
        max_response=context.max_response,
        input=context.message,
        instruct=context.active_instruct,
        system_prompt=context.active_system_prompt,
        context=context.active_context_template,
        reasoning=power_user.reasoning,
        notes=_notes(context),
        prefer_character_prompt=power_user.prefer_character_prompt,
        prefer_character_jailbreak=power_user.prefer_character_jailbreak,
        collapse_newlines=power_user.collapse_newlines,
        clock=context.clock,
        timezone=context.timezone,
        random=random,
    )


def _card_fields(character: Character) -> CardFields:
    image = character.extensions.get("sd_character_prompt")
    positive, negative = (image.get("positive"), image.get("negative")) if is_mapping(image) else ("", "")
    return CardFields(
        description=character.description,
        personality=character.personality,
        scenario=character.scenario,
        first_mes=character.first_mes,
        alternate_greetings=character.alternate_greetings,
        mes_example=character.mes_example,
        creator_notes=character.creator_notes,
        system_prompt=character.system_prompt,
        post_history_instructions=character.post_history_instructions,
        character_version=character.character_version,
        depth_prompt=depth_prompt_of(character).text,
        image_prefix=positive if isinstance(positive, str) else "",
        image_negative_prefix=negative if isinstance(negative, str) else "",
    )


def _group(context: SillyTavernContext) -> Group | None:
    group = context.group
    if group is None:
        return None
    muted = frozenset(group.disabled_members)
    return Group(
        members=tuple(
            GroupMember(name=card.name, muted=avatar in muted, card=_card_fields(card))
            for avatar in group.members
            if (card := context.members.get(avatar)) is not None
        ),
        join_cards=group.generation_mode != "swap",
        join_muted=group.generation_mode == "append_disabled",
        join_prefix=group.join_prefix,
        join_suffix=group.join_suffix,
    )


def _notes(context: SillyTavernContext) -> AuthorsNotes:
    settings = context.settings.note
    stem = file_stem(context.avatar_file)
    own = next((note.prompt for note in settings.characters if note.name == stem), "")
    return AuthorsNotes(chat=context.metadata.note_prompt or "", character=own, default=settings.default)
