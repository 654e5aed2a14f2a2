"""Regex scripts and clean-up of SillyTavern's chats: what they make of a text before it is stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tavernkit import silly_tavern as st
from tavernkit.cards import Character
from tavernkit.server.library import Cast
from tavernkit.server.limits import MAX_STOP_STRINGS
from tavernkit.server.talks.talk import TurnKind
from tavernkit.values import is_sequence, thaw

API = "openai"


def scripts_of(cast: Cast, card: Character | None) -> st.RegexScripts:
    """The global scripts, those of the preset and those of the character: whoever added them has allowed them."""
    preset = cast.preset if isinstance(cast.preset, st.Preset) else None
    avatar = card.name if card is not None else None
    return st.RegexScripts.from_settings(
        {
            "regex": thaw(cast.regex_scripts),
            "character_allowed_regex": [avatar],
            "preset_allowed_regex": {API: [preset.name] if preset is not None else []},
        },
        card_data={"extensions": card.extensions} if card is not None else None,
        avatar=avatar,
        preset={"extensions": preset.extensions} if preset is not None else None,
        preset_name=preset.name if preset is not None else None,
        api=API,
        warn=_quiet,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Who said a reply, of which turn: models write other people's lines behind their names."""

    kind: TurnKind
    user: str
    character: str
    members: Sequence[str] = ()
    stop: object = None
    """The stop strings of the client's request: one, or a list."""

    @property
    def own_stop_strings(self) -> list[str]:
        """Those of this request alone."""
        listed = self.stop if is_sequence(self.stop) else (self.stop,)
        return [each for each in listed if isinstance(each, str)][:MAX_STOP_STRINGS]


@dataclass(frozen=True, slots=True)
class StoredTexts:
    """Runs the scripts that change stored texts; those for prompts or for display only do not."""

    scripts: st.RegexScripts
    engine: st.MacroEngine
    environment: st.MacroEnvironment

    @property
    def leave_replies(self) -> bool:
        """Whether replies stay as they are, as there is nothing that could change them."""
        return not (self.scripts.global_ or self.scripts.preset or self.scripts.scoped)

    def reply(self, text: str) -> str:
        """What is stored of a reply."""
        return self._apply(text, st.RegexPlacement.AI_OUTPUT)

    def cleaned(self, text: str, said: Said, power_user: st.PowerUser) -> str:
        """What is stored of a model's reply: SillyTavern's whole clean-up, of which the scripts are a part."""
        impersonate = said.kind == "impersonate"
        options = st.CleanUp(
            user_name=said.user,
            character_name=said.character,
            impersonate=impersonate,
            continuing=said.kind == "continue",
            trim_sentences=power_user.context.trim_sentences,
            instruct=power_user.instruct,
            power_user=power_user,
            stop_strings=self._stop_strings(said, power_user),
            members=said.members,
            expand=self._expand,
            scripts=self.impersonated if impersonate else self.reply,
        )
        # What goes on with a reply begins where that ended: the blanks between them are no blanks at a start.
        begun = text.lstrip() if said.kind == "continue" else text
        return text[: len(text) - len(begun)] + st.clean_up(begun, options)

    def _stop_strings(self, said: Said, power_user: st.PowerUser) -> list[str]:
        return st.stop_strings(
            st.StopInput(
                instruct=power_user.instruct,
                context=power_user.context,
                user_name=said.user,
                character_name=said.character,
                members=said.members,
                impersonate=said.kind == "impersonate",
                custom=st.custom_stop_strings(power_user.custom_stopping_strings, _quiet),
                once=said.own_stop_strings,
                expand=self._expand,
                expand_custom=power_user.custom_stopping_strings_macro,
            )
        )

    def greeting(self, text: str) -> str:
        """What is stored of a greeting."""
        return self._expand(self.reply(text))

    def reasoning(self, text: str) -> str:
        """What is stored of a model's thoughts."""
        return self._apply(text, st.RegexPlacement.REASONING)

    def user_input(self, text: str) -> str:
        """What is stored of the user's words: scripts run, macros expanded."""
        return self._expand(self._apply(text, st.RegexPlacement.USER_INPUT))

    def impersonated(self, text: str) -> str:
        """What the model wrote for the user."""
        return self._apply(text, st.RegexPlacement.USER_INPUT)

    def edited(self, text: str, message: st.ChatMessage) -> str:
        """What is stored of a message that the user has changed."""
        if message.is_user:
            return self._apply(text, st.RegexPlacement.USER_INPUT, is_edit=True, character=message.name)
        if message.narrator:
            return self._apply(text, st.RegexPlacement.SLASH_COMMAND, is_edit=True)
        return self._apply(text, st.RegexPlacement.AI_OUTPUT, is_edit=True, character=message.name)

    def _apply(
        self, text: str, placement: st.RegexPlacement, *, is_edit: bool = False, character: str | None = None
    ) -> str:
        return self.scripts.apply(
            text, placement, expand=self._expand, is_edit=is_edit, character=character, warn=_quiet
        )

    def _expand(self, text: str, /, *, character: str | None = None, escape: Callable[[str], str] | None = None) -> str:
        return self.engine.expand(text, self.environment, warn=_quiet, character_name=character, post_process=escape)


def _quiet(_: str) -> None:
    """What is wrong with a script is told when it is imported, and by lint."""
