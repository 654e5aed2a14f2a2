"""What follows from a reply: its text is cut or refused, and the auxiliary model is asked for what belongs to it.

That is translations, suggestions, pictures, and texts that are added.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import TypeAlias

from tavernkit._text.js_regex import JSRegex, JSRegexSyntaxError
from tavernkit._text.js_values import WHITESPACE, js_lower, trim
from tavernkit._values import thaw_object
from tavernkit.errors import Warn
from tavernkit.risu_ai._chat.chat_log import ROLES, sent_messages
from tavernkit.risu_ai._chat.groups import shuffled
from tavernkit.risu_ai._chat.prompt_message import PromptMessage, parse_chat_ml
from tavernkit.risu_ai._context import RisuAIContext
from tavernkit.risu_ai._files.settings import Settings
from tavernkit.risu_ai._objects import RisuChat
from tavernkit.risu_ai._plan import helper_plan
from tavernkit.risu_ai._regex_scripts import hide_styles, restore_styles
from tavernkit.risu_ai._requests.messages import RequestRules, request_messages
from tavernkit.risu_ai._requests.parameters import HELPER_MODE
from tavernkit.risu_ai._sending.exchange import Answer, Ask, Failure, ModelRequest, Reply, RequestFailedError
from tavernkit.risu_ai._state import RisuState
from tavernkit.risu_ai.errors import PromptTemplateError

EMOTION_MODE, SLOT = "emotion", "{{slot}}"
TRANSLATION_MODE = "translate"
SUGGESTED_FROM = 10
"""How many of the last messages are used for suggestions."""

HelperText: TypeAlias = Generator[Ask, Answer, str | None]
"""Asks on the way; returns a text, or None if that failed."""


class HelperRequests:
    """Requests to the auxiliary model for one chat. A failure is a warning, and the send goes on without."""

    def __init__(self, context: RisuAIContext, state: RisuState, warn: Warn) -> None:
        """Prepare requests.

        Args:
            context: The inputs of the send.
            state: The chat and its texts.
            warn: Is called with each warning.
        """
        self._context = context
        self._state = state
        self._warn = warn

    def translate(self, text: str, language: str) -> HelperText:
        """Translate a text with the application's function or the auxiliary model."""
        hidden, styles = hide_styles(text)
        translate = self._context.send_steps.translate
        if translate is None:
            asked = translation_messages(hidden, language, self._context.settings)
            made = yield from self._ask(asked, TRANSLATION_MODE)
        else:
            try:
                made = translate(hidden, language)
            except RequestFailedError as error:
                self._warn(f"the text is not translated: {error}")
                made = None
        return None if made is None else restore_styles(made, styles)

    def suggestions(self) -> Generator[Ask, Answer, list[str]]:
        """Ask what the user could say next."""
        prompt = self._state.texts(suggestion_prompt(self._context.settings))
        answer = yield from self._ask(suggestion_messages(self._state.chat, prompt))
        return read_suggestions(answer or "")

    def added_text(self, prompt: str) -> HelperText:
        """Ask for what is added to a reply, with a prompt that is ChatML when it is expanded.

        Raises:
            PromptTemplateError: The prompt is not ChatML.
        """
        texts = self._state.texts
        parsed = parse_chat_ml(texts(prompt), lambda text: texts.as_speaker(text, None))
        if parsed is None:
            raise PromptTemplateError("igpPrompt must be written in ChatML")
        return (yield from self._ask(parsed))

    def emotion(self) -> Generator[Ask, Answer, list[str]]:
        """Ask which picture fits the reply; none if the character's screen does not show feelings."""
        state, character = self._state, self._state.character
        wanted = self._context.send_steps.emotion
        if wanted is None:
            wanted = character.raw.get("viewScreen") == "emotion" and not state.fields.inlay_view
        if not wanted or not character.emotions or state.in_group or not state.chat.messages:
            return []
        # RisuAI shuffles the names before it asks, and takes the first of that order which is in the answer.
        names = shuffled([emotion.name for emotion in character.emotions], state.texts.context.random)
        prompt = self._context.settings.texts.emotion_prompt.replace(SLOT, ", ".join(names))
        asked = [
            PromptMessage(role="system", content=prompt),
            PromptMessage(role="user", content=state.chat.messages[-1].data),
        ]
        answer = js_lower((yield from self._ask(asked, EMOTION_MODE)) or "")
        return [name for name in names if js_lower(name) in answer][:1]

    def _ask(self, messages: Sequence[PromptMessage], purpose: str = HELPER_MODE) -> HelperText:
        settings, preset = self._context.settings, self._state.preset
        rules = RequestRules.of(preset, settings, preset.sub_model)
        plan = helper_plan(messages, rules, purpose)
        request = ModelRequest(
            model=rules.model,
            messages=request_messages(messages, rules, warn=self._warn),
            options=thaw_object(plan.llm_options),
            stream=False,
            streamable=False,
            plan=plan,
            prompt=tuple(messages),
            rules=rules,
        )
        answer: Answer = Failure("no model was asked")
        for _ in range(settings.request_retries + 1):
            answer = yield request
            if isinstance(answer, Reply):
                return answer.text
            if not isinstance(answer, Failure):
                break
        self._warn(f"a helper request failed: {answer.message if isinstance(answer, Failure) else 'it was streamed'}")
        return None


def suggestion_prompt(settings: Settings) -> str:
    """Return the instruction of a request for suggestions."""
    stated = settings.raw.get("autoSuggestPrompt")
    return stated if isinstance(stated, str) and stated else settings.texts.auto_suggest_prompt


def suggestion_messages(chat: RisuChat, instruction: str) -> list[PromptMessage]:
    """Return the messages of a request for suggestions.

    Args:
        chat: The chat, of which the last messages are sent.
        instruction: The instruction, expanded.
    """
    spoken = [
        PromptMessage(role=ROLES.get(message.role, "assistant"), content=message.data)
        for message in sent_messages(chat)[0][-SUGGESTED_FROM:]
    ]
    return [*spoken, PromptMessage(role="system", content=instruction)]


def read_suggestions(reply: str) -> list[str]:
    """Return the suggestions of a reply, which has one on each line."""
    return [line for line in map(str.strip, reply.splitlines()) if line]


def translation_messages(text: str, language: str, settings: Settings) -> Sequence[PromptMessage]:
    """Return the messages of a request for a translation.

    Args:
        text: The text, its style blocks hidden.
        language: The language to translate into.
        settings: The settings with the instruction.
    """
    prompt = settings.texts.translation_prompt.replace("{{slot}}", language)
    return [PromptMessage(role="system", content=prompt), PromptMessage(role="user", content=text)]


# RisuAI's own list: nearly all punctuation ends a sentence, and so do accents and Hebrew vowel points.
_CLOSING = frozenset(".!?。！？…@#$%^&*()-_+={}[]|\\:;<>,/~`¡¿‽⁉'\"")
_CLOSING_RANGES = ((0x02B0, 0x036F), (0x0590, 0x05CF), (0x3000, 0x303F))


def ends_closed(text: str) -> bool:
    """True if a text ends as a sentence does; nothing counts as closed."""
    text = trim(text)
    return not text or _closes(text[-1])


def cut_incomplete(text: str) -> str:
    """Cut a text back to where it last ended as a sentence does; a blank that follows stays."""
    end = len(text)
    for place in range(len(text) - 1, -1, -1):
        if text[place] in WHITESPACE:
            continue
        if _closes(text[place]):
            return text[:end]
        end = place
    return text[:end]


def _closes(character: str) -> bool:
    code = ord(character)
    return character in _CLOSING or any(first <= code <= last for first, last in _CLOSING_RANGES)


def has_banned_script(text: str, scripts: Iterable[str], warn: Warn) -> bool:
    """True if a text has a character of one of the Unicode scripts a user does not want."""
    for script in scripts:
        try:
            if JSRegex.compile(rf"\p{{Script={script}}}", "u").test(text, warn=warn):
                return True
        except JSRegexSyntaxError:
            warn(f"banCharacterset: there is no script called {script!r}")
    return False
