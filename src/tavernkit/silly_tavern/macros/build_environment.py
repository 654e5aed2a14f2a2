"""What a build's macros see."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tavernkit.macros.budget import BuildBudget
from tavernkit.silly_tavern.chat.chat_message import ChatMessage
from tavernkit.silly_tavern.context import SillyTavernContext
from tavernkit.silly_tavern.groups.group_chat import GroupChat
from tavernkit.silly_tavern.macros.environment import MacroEnvironment, MacroMemory
from tavernkit.silly_tavern.macros.settings import AuthorsNotes
from tavernkit.silly_tavern.world_info.selection import file_stem
from tavernkit.stores.variables import VariablesStore


def macro_environment(
    context: SillyTavernContext,
    chat: Sequence[ChatMessage],
    variables: VariablesStore,
    memory: MacroMemory,
    random: Callable[[], float],
    budget: BuildBudget,
) -> MacroEnvironment:
    """The environment at the start of a build; the turn, the outlets and the input change later."""
    metadata, settings, preset = context.metadata, context.settings, context.active_preset
    power_user = settings.power_user
    reroll = metadata.get("pick_reroll_seed")
    return MacroEnvironment(
        user_name=context.user_name,
        character_name=context.character_name,
        character=context.card,
        persona=context.active_persona.description,
        group=GroupChat.of(context.group, context.members, context.avatar_file) if context.group is not None else None,
        chat=chat,
        chat_id=context.chat_id,
        main_chat=metadata.get("main_chat"),
        pick_reroll_seed=reroll if isinstance(reroll, (int, float, str)) else None,
        scenario_override=metadata.scenario,
        examples_override=metadata.mes_example,
        system_prompt_override=metadata.system_prompt,
        first_included_message_id=metadata.get("lastInContextMessageId"),
        variables=variables,
        memory=memory,
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
        budget=budget,
    )


def _notes(context: SillyTavernContext) -> AuthorsNotes:
    settings = context.settings.note
    stem = file_stem(context.avatar_file)
    own = next((note.prompt for note in settings.characters if note.name == stem), "")
    return AuthorsNotes(chat=context.metadata.note_prompt or "", character=own, default=settings.default)
