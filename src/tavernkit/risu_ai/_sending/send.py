"""The send itself: it asks for replies and never reaches outside on its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from tavernkit._text.js_values import trim
from tavernkit._values import FrozenObject, thaw_object
from tavernkit.errors import MaxTokensExceededError, PipelineError
from tavernkit.risu_ai._cbs.blocks import escape_braces
from tavernkit.risu_ai._chat.chat_log import chat_id, generation_id, with_messages, with_text
from tavernkit.risu_ai._chat.groups import speakers
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._context import RisuAIContext, chained_settings
from tavernkit.risu_ai._limits import MAX_ROUNDS
from tavernkit.risu_ai._objects import RisuMessage, made_id
from tavernkit.risu_ai._plan import RisuPlan
from tavernkit.risu_ai._requests.messages import RequestRules, request_messages, unescaped
from tavernkit.risu_ai._sending.exchange import (
    Answer,
    Ask,
    Chunk,
    Failure,
    ModelRequest,
    NextChunk,
    Reply,
    SendError,
    SendResult,
    Stopped,
)
from tavernkit.risu_ai._sending.operation import Operation
from tavernkit.risu_ai._sending.replies import HelperRequests, cut_incomplete, ends_closed, has_banned_script
from tavernkit.risu_ai._state import RisuState
from tavernkit.risu_ai._triggers.build_triggers import edit_request, has_triggers, run_build_triggers
from tavernkit.risu_ai.errors import MemoryFailedError, PromptTemplateError, TriggerError

if TYPE_CHECKING:
    from tavernkit.risu_ai._builder import Builder

Steps = Generator[Ask, Answer, bool]
"""Asks on the way; returns whether the send succeeded."""

CONTEXT_TOO_SMALL, REQUEST_FAILED, NOBODY_SPEAKS = "context_too_small", "request_failed", "nobody_speaks"
INLAY_PROMPT_FAILED = "inlay_prompt_failed"
ERROR_PREFIX = "Error: error in request:"
"""RisuAI puts no space between this and what the provider says."""


class Send(Operation):
    """One send of a user: it may need several requests (retries, continuations, a group's members, triggers).

    ``run()`` is a generator: it yields what it needs and takes the answer, so that any program, synchronous or not,
    can drive it.
    """

    def __init__(
        self, builder: Builder, context: RisuAIContext, *, session: tuple[object, ...] | None = None, stamp: object = ""
    ) -> None:
        """Prepare a send; the arguments are those of ``Operation``."""
        super().__init__(builder, context, session=session, stamp=stamp)
        self.plans: list[RisuPlan] = []
        self.emotions: list[str] = []
        self.suggestions: list[str] = []
        """What the user could say next, if that was asked for."""
        self.translations: dict[str, str] = {}
        """Replies to be shown in another language, by their ids."""
        self.choices: dict[str, tuple[str, ...]] = {}
        """Texts that RisuAI can show in the place of a reply, by the reply's id: its raw stream, or several choices."""
        self._requests = 0
        self._replies = 0
        self._model = ""
        """The model that gave the last reply."""

    def run(self) -> Generator[Ask, Answer, SendResult]:
        """Do everything a send does."""
        yield from self.translate_input()
        if not self.take_message():
            return self.result(ok=False)
        return (yield from self.generate())

    def translate_input(self) -> Generator[Ask, Answer, None]:
        """Translate what the user typed, if the settings or the application want it; do that before it is stored."""
        language = self._context.send_steps.translate_input
        if language and self._context.message:
            text = yield from self._helper(self._state_with_speaker()).translate(self._context.message, language)
            if text is not None:
                self._context = self._context.replace(message=text)

    def generate(self) -> Generator[Ask, Answer, SendResult]:
        """Let the model answer the chat as it is stored."""
        before = self.chat.messages
        try:
            ok = yield from self._send(continued=self._context.continued, counted=0)
        except TriggerError as error:
            if self._context.strict:
                raise
            self._trigger_failed(error)
            ok = False
        if ok:
            yield from self._finish_send(before)
        return self.result(ok=ok)

    def result(self, *, ok: bool) -> SendResult:
        """The result so far."""
        return SendResult(
            ok=ok,
            chat=self.chat,
            character=self.character,
            members=self.members,
            settings=self.settings,
            error=self.error,
            plans=tuple(self.plans),
            emotions=tuple(self.emotions),
            suggestions=tuple(self.suggestions),
            translations=dict(self.translations),
            warnings=tuple(self.warnings),
            variables=self.variables.changes(),
        )

    def _finish_send(self, before: tuple[RisuMessage, ...]) -> Generator[Ask, Answer, None]:
        """Translate the new replies, and ask for suggestions, if the settings or the application want it."""
        steps = self._context.send_steps
        language = steps.reply_language(self._context.settings)
        if not language and not steps.suggest:
            return
        helper = self._helper(self._state_with_speaker())
        old = {chat_id(message): message.data for message in before}
        new = [each for each in self.chat.messages if each.role == "char" and old.get(chat_id(each)) != each.data]
        for message in new if language else ():
            text = yield from helper.translate(message.data, language)
            if text is not None:
                self.translations[chat_id(message) or ""] = self.translated(text)
        if steps.suggest:
            self.suggestions = yield from helper.suggestions()

    def _helper(self, state: RisuState) -> HelperRequests:
        return HelperRequests(self._context, state, self._warn)

    def _send(self, *, continued: bool, counted: int) -> Steps:
        context = self._context
        if context.owner.is_group and context.speaker is None:
            return (yield from self._round())
        return (yield from self._turn(context.speaker, continued=continued, counted=counted))

    def _round(self) -> Steps:
        """A group's round: the chosen members one after another; the first that fails ends it."""
        random = self._context.random_source
        context = self._context.replace(settings=chained_settings(self._context, random, self._warn))
        self._context = context
        try:
            chosen = speakers(context.owner, context.members, self.chat, random)
        except PromptTemplateError as error:
            if context.strict:
                raise
            self._warn(f"{error}; RisuAI throws here, and no one speaks")
            self.error = SendError(NOBODY_SPEAKS, str(error), cause=error)
            return False
        for speaker in chosen:  # RisuAI's groups ignore the wish to continue
            if not (yield from self._turn(speaker, continued=False, counted=0)):
                return False
        return True

    def _turn(self, speaker: str | None, *, continued: bool, counted: int) -> Steps:
        """One prompt, one reply, and what the reply leads to."""
        state = self._build(speaker, continued=continued)
        if state is None:
            return False
        answer = yield from self._ask(state)
        if isinstance(answer, Stopped):
            return False
        if isinstance(answer, Failure):
            self._fail(state, answer)
            return False
        if isinstance(answer, Reply):
            new = self._store(state, answer, continued=continued)
        else:
            streamed = yield from self._stream(state, continued=continued)
            if streamed is None:
                return False
            new = streamed
        self._expand_stored(state)
        resend = self._output_triggers(state)
        self._keep_changes(state)
        self.emotions += state.emotions
        tokens = state.counter.text(new) + counted  # unless streamed, a continued text counts again as a whole
        if self._unfinished(new, tokens):
            return (yield from self._turn(speaker, continued=True, counted=tokens))
        yield from self._inlay_prompt(state)
        if self.error is not None:
            return False
        if resend:  # in a group the same member speaks again, and then the round goes on
            return (yield from self._turn(speaker, continued=False, counted=0))
        if not self.emotions:  # otherwise a script chose one
            self.emotions += yield from self._helper(state).emotion()
        return True

    def _build(self, speaker: str | None, *, continued: bool) -> RisuState | None:
        context = self._context.replace(
            history=self.chat, speaker=speaker, generation_type="continue" if continued else "normal"
        )
        state = self._new_state(context)
        try:
            plan = self._builder.run_state(state)
        except MaxTokensExceededError as error:
            self.error = SendError(CONTEXT_TOO_SMALL, str(error), cause=error)
            return None
        except PipelineError as error:
            cause = error.__cause__
            if isinstance(cause, TriggerError) and not context.strict:
                raise cause from cause.__cause__
            if not isinstance(cause, MemoryFailedError):
                raise
            self.error = SendError(cause.code, str(cause), cause=cause)
            return None
        finally:
            self._keep(state)
        if state.settings is not context.settings:
            self._context = self._context.replace(settings=state.settings)
        self.plans.append(plan)
        self.warnings += plan.warnings
        return None if plan.stopped else state

    def _ask(self, state: RisuState) -> Generator[Ask, Answer, Answer]:
        """Ask the model, its fallbacks and each of them again, as often as the settings say."""
        settings = self._context.settings
        original = unescaped(state.need_plan().prompt_messages())
        answer: Answer = Failure("no model was asked")
        models = settings.fallback_models or (state.preset.ai_model,)  # with fallbacks, the chat's own is never asked
        for number, model in enumerate(models, start=1):
            messages = original
            # Each attempt goes on with what request triggers made of the list before; only another model starts again.
            for _ in range(settings.request_retries + 1):
                messages, answer = yield from self._attempt(state, messages, model, original)
                if not isinstance(answer, Failure):
                    break
            blank = isinstance(answer, Reply) and self._is_too_blank(answer.text)
            if number < len(models) and blank:
                continue
            if not isinstance(answer, Failure):
                self._model = "" if blank else model  # a blank reply is stored as one of the chat's own model
                break
        return answer

    def _is_too_blank(self, reply: str) -> bool:
        """True if the next fallback model is to be asked, because this one said nothing."""
        return bool(self._context.settings.raw.get("fallbackWhenBlankResponse")) and not trim(reply)

    def _attempt(
        self, state: RisuState, messages: list[PromptMessage], model: str, original: list[PromptMessage]
    ) -> Generator[Ask, Answer, tuple[list[PromptMessage], Answer]]:
        """One request, repeated while the reply has letters the user does not want."""
        settings, plan = self._context.settings, state.need_plan()
        rules = RequestRules.of(state.preset, settings, model, self._context.tool_calls)
        if plan.rules.bias is not None:
            rules = dataclasses.replace(rules, bias=plan.rules.bias)
        while True:
            messages = edit_request(state, messages)
            if self._requests >= MAX_ROUNDS:
                return messages, Failure(f"more than {MAX_ROUNDS} requests in one send")
            self._requests += 1
            if model == "echo_model":
                return messages, Reply(settings.echo_message)
            answer = yield ModelRequest(
                model=model,
                messages=request_messages(messages, rules, warn=self._warn, strict=self._context.strict),
                options=thaw_object(plan.llm_options),
                stream=settings.use_streaming and not state.fields.escape_output,
                plan=plan.asked_as(messages, rules, original),
                streamable=not state.fields.escape_output,
                prompt=tuple(messages),
                rules=rules,
            )
            text = answer.text if isinstance(answer, Reply) else ""
            # Such a reply is no failure: RisuAI asks again without counting.
            if not has_banned_script(text, settings.banned_scripts, self._warn):
                return messages, answer

    def _store(self, state: RisuState, reply: Reply, *, continued: bool) -> str:
        """Store a whole reply; returns the text that counts for going on."""
        messages = state.chat.messages
        texts = [
            self._received(state, text, messages, continued=continued) for text in (reply.text, *reply.alternatives)
        ]
        if continued and not messages:
            self._nothing_to_continue()
        # Continuing replaces the whole message, even the user's: `disabled` and other fields are lost, as in RisuAI.
        place = len(messages) - 1 if continued and messages else None
        message = self._message(state, texts[0], len(messages) if place is None else place)
        if reply.alternatives:
            self._offer(message, texts)
        self._put_message(state, message, place)
        return texts[0]

    def _put_message(self, state: RisuState, message: RisuMessage, place: int | None) -> None:
        """Put a message in the place of another, or at the end: Lua listeners of a reply may change the others."""
        messages = state.chat.messages
        place = len(messages) if place is None else place
        self._see(state, with_messages(state.chat, (*messages[:place], message, *messages[place + 1 :])))

    def _received(self, state: RisuState, reply: str, messages: tuple[RisuMessage, ...], *, continued: bool) -> str:
        """A reply as it is stored: through Lua, CBS and scripts."""
        if state.fields.escape_output:
            reply = escape_braces(reply)
        text = state.edit_output(trim(reply), len(messages))
        if continued and messages:
            # RisuAI drops what the pass made of the reply alone (its side effects stay), and the old part passes again.
            text = state.edit_output(trim(messages[-1].data + reply), len(messages) - 1)
        return cut_incomplete(text) if self._context.settings.remove_incomplete_response else text

    def _offer(self, message: RisuMessage, texts: Sequence[str]) -> None:
        self.choices[generation_id(message)] = tuple(texts)

    def _stream(self, state: RisuState, *, continued: bool) -> Generator[Ask, Answer, str | None]:
        """Store a reply as it comes in; scripts see the raw text so far each time.

        Returns the new part, or nothing if the user stopped it.
        """
        before = ""
        self._flag_streaming(state, on=True)
        if continued and state.chat.messages:
            *others, last = state.chat.messages  # it keeps its role: a user's message stays the user's
            before = last.data
            info = self._generation_info(state, self._new_id(state, len(others)))
            message = dataclasses.replace(last, raw=MappingProxyType({**last.raw, "generationInfo": info}))
            place = len(others)
        else:
            if continued:
                self._nothing_to_continue()
            place = len(state.chat.messages)
            message = self._message(state, "", place)
        self._put_message(state, message, place)
        scripted = bool(state.scripts) or has_triggers(state) or "{" in before
        raw = new = ""
        while True:
            answer = yield NextChunk(scripted)
            if isinstance(answer, Stopped):
                return None  # `isStreaming` stays on, as in RisuAI
            if not isinstance(answer, Chunk):
                break
            raw += answer.text or ""
            new = cut_incomplete(raw) if self._context.settings.remove_incomplete_response else raw
            text = state.edit_output(trim(before + new), place)
            stored = state.chat.messages
            self._put_message(state, with_text(stored[place] if place < len(stored) else message, text), place)
            if answer.text is None:  # the end of a stream is a packet as well, so the text passes once more
                break
        self._flag_streaming(state, on=False)
        self._offer(message, [raw])
        return new

    def _flag_streaming(self, state: RisuState, *, on: bool) -> None:
        raw: FrozenObject = MappingProxyType({**state.chat.raw, "isStreaming": on})
        self._see(state, dataclasses.replace(state.chat, raw=raw))

    def _inlay_prompt(self, state: RisuState) -> Generator[Ask, Answer, None]:
        """Ask for what is added to the reply (RisuAI's ``igpPrompt``), and add it."""
        prompt = self._context.send_steps.added_prompt(self._context.settings)
        if not prompt:
            return
        try:
            answer = yield from self._helper(state).added_text(prompt)
        except PromptTemplateError as error:
            if self._context.strict:
                raise
            self._warn(f"{error}; RisuAI throws here, nothing is added to the reply")
            if self._context.quirks:
                self.error = SendError(INLAY_PROMPT_FAILED, str(error), cause=error)
            return
        if self._context.quirks:
            answer = "[object Object]"  # RisuAI adds the object that it got, an error too, instead of the text in it
        messages = state.chat.messages
        if answer is not None and messages:
            changed = with_text(messages[-1], messages[-1].data + answer)
            self._see(state, with_messages(state.chat, (*messages[:-1], changed)))

    def _nothing_to_continue(self) -> None:
        problem = "there is no message to continue"
        if self._context.strict:
            raise PromptTemplateError(problem)
        self._warn(f"{problem}; RisuAI throws here, the reply is stored as a new message")

    def _expand_stored(self, state: RisuState) -> None:
        """Expand every stored message once more, for good."""
        expand, messages = state.texts.with_writes, list(state.chat.messages)
        for place in state.services.chats.know(state.chat.messages).with_cbs:
            messages[place] = with_text(messages[place], expand(messages[place].data))
        self._see(state, with_messages(state.chat, messages))

    def _output_triggers(self, state: RisuState) -> bool:
        result = run_build_triggers(state, "output")
        self._keep(state)
        return result is not None and result.send_ai_prompt

    def _unfinished(self, new: str, tokens: int) -> bool:
        settings = self._context.settings
        if settings.auto_continue_min_tokens > 0 and tokens < settings.auto_continue_min_tokens:
            return True
        return settings.auto_continue_chat and not ends_closed(new)

    def _fail(self, state: RisuState, failure: Failure) -> None:
        text = failure.body or ERROR_PREFIX + failure.message
        if not self._context.settings.inlay_error_response:
            self.error = SendError(REQUEST_FAILED, text, failure.message)
            return
        block = f"```risuerror\n{text}\n```"
        messages = state.chat.messages
        if messages and messages[-1].role == "char":
            changed = (*messages[:-1], with_text(messages[-1], f"{messages[-1].data}\n{block}"))
        else:
            changed = (*messages, self._message(state, block, len(messages)))
        self._see(state, with_messages(state.chat, changed))

    def _message(self, state: RisuState, text: str, index: int) -> RisuMessage:
        made = self._new_id(state, index)
        raw: FrozenObject = {"chatId": made, "generationInfo": self._generation_info(state, made)}
        return RisuMessage(role="char", data=text, time=state.milliseconds, saying=state.character.id, raw=raw)

    def _new_id(self, state: RisuState, index: int) -> str:
        self._replies += 1
        return made_id("reply", state.chat.id, index, state.character.id, self._stamp, self._replies)

    def _generation_info(self, state: RisuState, generation: str) -> FrozenObject:
        plan, preset = state.need_plan(), state.preset
        return {
            "model": self._model or preset.ai_model,
            "generationId": generation,
            "inputTokens": sum(map(state.counter.message, state.messages)),
            "outputTokens": plan.llm_options.get("max_tokens"),
            "maxContext": preset.max_context,
        }
