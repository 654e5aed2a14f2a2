"""The inputs for cleaning up a reply, from a build."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._chat.output_cleanup import CleanUp, StopInput, custom_stop_strings, stop_strings
from tavernkit.silly_tavern._context import SillyTavernContext
from tavernkit.silly_tavern._state import SillyTavernState
from tavernkit.silly_tavern._steps.prepare import group_names

_MAY_EXPAND = frozenset("{<\\\x00")
"""Characters of texts that the macro engine may change."""


def plain_clean_up(context: SillyTavernContext, generation_type: str, chat: Sequence[ChatMessage]) -> CleanUp | None:
    """Return the options of a clean-up for which no text is expanded and no script runs; None if there are any.

    Args:
        context: The chat's own inputs.
        generation_type: The type of generation.
        chat: The chat.
    """
    power_user, template, scripts = context.settings.power_user, context.active_context_template, context.regex_scripts
    separators = f"{template.chat_start}{template.example_separator}" if template.use_stop_strings else ""
    if (
        context.group is not None
        or (scripts is not None and scripts.active)
        or context.active_instruct.enabled
        or power_user.custom_stopping_strings
        or power_user.user_prompt_bias
        or not power_user.experimental_macro_engine  # the other engine expands plain texts, too
        or not _MAY_EXPAND.isdisjoint(separators)
    ):
        return None
    impersonate, continuing = generation_type == "impersonate", generation_type == "continue"
    user_name, character_name = context.user_name, context.character_name
    return CleanUp(
        user_name=user_name,
        character_name=character_name,
        impersonate=impersonate,
        continuing=continuing,
        trim_sentences=template.trim_sentences,
        instruct=context.active_instruct,
        power_user=power_user,
        stop_strings=stop_strings(
            StopInput(
                instruct=context.active_instruct,
                context=template,
                user_name=user_name,
                character_name=character_name,
                impersonate=impersonate,
                continues_user=continuing and bool(chat) and chat[-1].is_user,
                once=context.stop_strings,
                expand=str,
            )
        ),
    )


def reply_stop_strings(state: SillyTavernState) -> list[str]:
    """Return the texts at which a reply ends."""
    context, power_user, chat = state.context, state.context.settings.power_user, state.turn.chat
    kind = context.prompt_type
    return stop_strings(
        StopInput(
            instruct=context.active_instruct,
            context=context.active_context_template,
            user_name=context.user_name,
            character_name=context.character_name,
            members=group_names(state),
            impersonate=kind == "impersonate",
            continues_user=kind == "continue" and bool(chat) and chat[-1].is_user,
            custom=custom_stop_strings(power_user.custom_stopping_strings, state.warn),
            once=context.stop_strings,
            expand=state.macros,
            expand_custom=power_user.custom_stopping_strings_macro,
        )
    )


def reply_clean_up(state: SillyTavernState, stops: Sequence[str]) -> CleanUp:
    """Return the options of the clean-up of a reply.

    Args:
        state: The workspace of the build, or one of the same inputs.
        stops: The texts at which the reply ends.
    """
    context, scripts = state.context, state.scripts
    impersonate = context.prompt_type == "impersonate"
    return CleanUp(
        user_name=context.user_name,
        character_name=context.character_name,
        impersonate=impersonate,
        continuing=context.prompt_type == "continue",
        trim_sentences=context.active_context_template.trim_sentences,
        instruct=context.active_instruct,
        power_user=context.settings.power_user,
        stop_strings=stops,
        members=group_names(state),
        expand=state.macros,
        scripts=partial(scripts.reply, is_user=impersonate) if scripts is not None else str,
    )
