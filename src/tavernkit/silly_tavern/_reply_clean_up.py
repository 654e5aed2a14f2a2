"""What a build knows that the clean-up of its reply needs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tavernkit.silly_tavern._chat.output_cleanup import CleanUp
from tavernkit.silly_tavern._state import SillyTavernState
from tavernkit.silly_tavern._steps.prepare import group_names
from tavernkit.silly_tavern._text_completion.stop_strings import StopInput, custom_stop_strings, stop_strings


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
