"""One turn: build, ask, clean up, store; for each speaker, for each round of tool calls."""

from __future__ import annotations

from dataclasses import replace

from tavernkit._text.js_values import trim
from tavernkit._turns import Exchange, Host, Turn, TurnKind
from tavernkit._values import JsonObject, thaw_object
from tavernkit.errors import TavernKitError
from tavernkit.models._reply import Reply, ReplyPiece, ToolCall
from tavernkit.prompt._inputs import GenerationType
from tavernkit.silly_tavern._chat.core_chat import SENDING_TYPES
from tavernkit.silly_tavern._chat.output_cleanup import clean_up
from tavernkit.silly_tavern._chat_completion.plan import ChatPlan
from tavernkit.silly_tavern._context import SillyTavernContext
from tavernkit.silly_tavern._conversation import lines as chat_lines
from tavernkit.silly_tavern._conversation.chat_state import ChatState, scripted, split_reasoning
from tavernkit.silly_tavern._conversation.edits import typed_line
from tavernkit.silly_tavern._conversation.json_errors import json_error
from tavernkit.silly_tavern._inputs import SillyTavernInputs
from tavernkit.silly_tavern._reply_clean_up import plain_clean_up, reply_clean_up, reply_stop_strings
from tavernkit.silly_tavern._scripts.regex_scripts import RegexPlacement

MAX_AUTOMATIC = 5
"""A reply is swiped or continued automatically at most this often in a turn."""

SHORTEST_CONTINUED = 5
"""Shorter replies are not continued automatically: in the recorded cases, ``tiny`` is not."""


class Generation:
    """One turn of a chat. It changes the state directly; ``result()`` describes what it did.

    Args:
        state: The chat.
        host: Asks the model, runs tools and saves.
        kind: The operation, for the result.
        options: Inputs of this turn's builds only.
    """

    def __init__(self, state: ChatState, host: Host, kind: TurnKind, options: SillyTavernInputs | None = None) -> None:
        self._state = state
        self._host = host
        self._kind: TurnKind = kind
        self._options = options
        self._exchanges: list[Exchange] = []
        self._text = ""
        self._streamed = False

    def result(self) -> Turn:
        """Return what the turn did."""
        return Turn(kind=self._kind, text=self._text, exchanges=tuple(self._exchanges))

    async def round(self, generation_type: GenerationType, text: str, speaker: str | None) -> None:
        """Let the speakers of a group's turn speak, one after the other.

        Args:
            generation_type: SillyTavern's name for the kind of turn.
            text: What the user sends.
            speaker: Who must speak; by default the group's rules decide.
        """
        state = self._state
        state.round += 1
        decision = await state.work(lambda: state.builder.decide(**state.inputs(generation_type, text, speaker)))
        state.speakers = tuple(decision.activated)
        if not decision.activated and generation_type == "normal":
            self._send_as_user(text)
            await self._host.checkpoint()
        for avatar, its_type in zip(decision.activated, decision.generation_types, strict=True):
            await self.generate(its_type, text, avatar)
            text, reply = "", self._exchanges[-1].reply
            if reply.interrupted or (reply.tool_calls and not state.runs_tools):
                return  # the next one would answer an unfinished reply

    def _send_as_user(self, text: str) -> None:
        """Store the user's message if nobody answers it, even an empty one."""
        self._state.turn_lines.append(typed_line(self._state, text))

    async def generate(
        self, generation_type: GenerationType, text: str, speaker: str | None, *, depth: int = 0
    ) -> None:
        """Build a prompt, ask for the reply and store it; then run the tools that it calls.

        Args:
            generation_type: SillyTavern's name for the kind of turn.
            text: What the user sends.
            speaker: The member of a group who speaks.
            depth: The number of previous rounds of tool calls.
        """
        options = self._options
        if depth:
            options = (options or {}) | {"tool_recursion": depth}
        try:
            plan = await self._state.work(lambda: self._build(generation_type, text, speaker, options))
        except TavernKitError:
            # The user's message is kept, although there is no prompt to send.
            if text and generation_type in SENDING_TYPES:
                self._send_as_user(text)
                await self._host.checkpoint()
            raise
        self._take(plan, generation_type)
        await self._host.checkpoint()
        reply = await self._ask(plan, generation_type, speaker)
        await self._receive(plan, reply, generation_type, speaker, depth)

    def _build(
        self, generation_type: GenerationType, text: str, speaker: str | None, options: SillyTavernInputs | None
    ) -> ChatPlan:
        state = self._state
        if generation_type != "swipe" or not state.turn_lines:
            return state.build(generation_type, text, speaker, options)
        # While a swipe is generated, its number is already set: macros about swipes see it.
        line = state.turn_lines[-1]
        shown = line.get("swipe_id")
        chat_lines.leave_swipe(line)
        line["swipe_id"] = len(chat_lines.swipes_of(line))
        try:
            return state.build(generation_type, text, speaker, options)
        finally:
            line["swipe_id"] = shown

    def _take(self, plan: ChatPlan, generation_type: GenerationType) -> None:
        """Apply the changes of a build: the user's line, the first message, variables, timed lore, the cut."""
        state, lines = self._state, self._state.turn_lines
        before = len(state.before)
        if generation_type == "regenerate":  # one line, whatever it is: a reply, a narrator's, a hidden one
            del lines[len(plan.chat) - before :]
        for message in plan.chat[before + len(lines) :]:
            bias = message.extra.get("bias")
            bias = bias if isinstance(bias, str) else ""
            if message.is_system:
                lines.append(chat_lines.bias_line(bias, state.now()))
                chat_lines.show(lines[-1])
            else:
                avatar = state.user_avatar
                lines.append(chat_lines.user_line(message.name, message.mes, state.now(), bias=bias, avatar=avatar))
        if lines and not before and lines[0].get("mes") != plan.chat[0].mes:
            lines[0]["mes"] = plan.chat[0].mes
        plan.variables.apply(state.variables)
        if plan.macro_memory is not None:
            state.memory = plan.macro_memory
        # Stored with the prompt: a request that fails takes nothing of this back.
        state.header["timedWorldInfo"] = {"sticky": {}, "cooldown": {}} | thaw_object(plan.timed_world_info)
        state.header.update(thaw_object(plan.metadata_changes))
        before_last = generation_type in ("swipe", "regenerate", "continue")  # one more, as in SillyTavern
        state.header["lastInContextMessageId"] = max(0, before + len(lines) - plan.chat_messages_sent - before_last)

    async def _ask(self, plan: ChatPlan, generation_type: GenerationType, speaker: str | None) -> Reply:
        arrived, self._streamed = "", False
        cleans = self._scripts_have_effects(speaker)

        def on_piece(piece: ReplyPiece) -> None:
            nonlocal arrived
            arrived += piece.text
            self._streamed = True
            if piece.text and cleans:
                self._cleaned(plan, arrived, generation_type, speaker)

        try:
            reply = await self._host.ask(plan, on_piece=on_piece)
        except BaseException as error:
            if arrived:
                broken = Reply(text=arrived, interrupted=str(error) or type(error).__name__)
                self._exchanges.append(Exchange(plan=plan, reply=broken))
                self._store(plan, broken, generation_type, speaker)
                await self._host.checkpoint()
            raise
        self._exchanges.append(Exchange(plan=plan, reply=reply))
        return reply

    def _scripts_have_effects(self, speaker: str | None) -> bool:
        """Return True if a script contains macros, whose side effects happen with each clean-up."""
        scripts = self._state.context().regex_scripts
        if speaker is not None:  # a member of a group may have its own scripts
            with self._state.expanding(speaker=speaker) as workspace:
                scripts = workspace.context.regex_scripts
        return scripts is not None and any("{{" in f"{each.find_regex}{each.replace_string}" for each in scripts.active)

    async def _receive(
        self, plan: ChatPlan, reply: Reply, generation_type: GenerationType, speaker: str | None, depth: int
    ) -> None:
        """Store a reply, then do what follows it."""
        await self._state.work(lambda: self._store(plan, reply, generation_type, speaker))
        if generation_type in ("quiet", "impersonate"):
            return
        context = self._state.context()
        if reply.interrupted:
            return
        if reply.tool_calls and not self._state.runs_tools:
            return
        if reply.tool_calls and not context.text_completion and context.active_preset.function_calling:
            await self._run_tools(reply, generation_type, speaker, depth)
            return
        await self._host.checkpoint()
        await self._swipe_or_continue(context, plan, generation_type, speaker)

    async def _swipe_or_continue(
        self, context: SillyTavernContext, plan: ChatPlan, generation_type: GenerationType, speaker: str | None
    ) -> None:
        """Swipe or continue the reply automatically, if the settings say so."""
        power_user, lines = context.settings.power_user, self._state.turn_lines
        swiping, continuing = power_user.auto_swipe, power_user.auto_continue
        if len(self._exchanges) > MAX_AUTOMATIC or not lines:
            return
        text = chat_lines.text_of(lines[-1])
        if swiping is not None and generation_type in ("normal", "regenerate", "swipe"):
            found = sum(text.lower().count(word.lower()) for word in swiping.words if word)
            too_short = bool(swiping.minimum_length) and len(text) < swiping.minimum_length
            if (swiping.words and found >= swiping.threshold) or too_short:
                await self.generate("swipe", "", speaker)
                return
        if continuing is not None and (continuing.chat_completion or context.text_completion):
            counted = plan.count_tokens(text) if plan.count_tokens is not None else continuing.target_length
            if len(text) >= SHORTEST_CONTINUED and counted < continuing.target_length and generation_type != "swipe":
                await self.generate("continue", "", speaker)

    # Storing

    def _cleaned(
        self, plan: ChatPlan, text: str, generation_type: GenerationType, speaker: str | None, *, whole: bool = True
    ) -> tuple[str, bool]:
        """Clean up a text; writes of its macros are kept. The end of a partial text is not trimmed.

        Also return True if macros have run.
        """
        plain = plain_clean_up(self._state.context(), generation_type, plan.chat)
        if plain is not None:
            if generation_type == "quiet":
                plain = replace(plain, trim_sentences=False)
            return clean_up(text, plain) if self._state.cleans_up and whole else text, False
        with self._state.expanding(generation_type, speaker=speaker) as workspace:
            workspace.turn = replace(workspace.turn, chat=tuple(plan.chat))
            options = reply_clean_up(workspace, reply_stop_strings(workspace))
            if not self._state.cleans_up or not whole:
                cleaned = options.scripts(text)
            elif generation_type == "quiet":
                cleaned = clean_up(text, replace(options, trim_sentences=False))
            else:
                cleaned = clean_up(text, options)
            return cleaned, workspace.build_budget.used

    def _store(self, plan: ChatPlan, reply: Reply, generation_type: GenerationType, speaker: str | None) -> None:
        """Store a reply as its kind of turn requires."""
        state = self._state
        if generation_type in ("quiet", "impersonate"):
            self._text = self._handed_back(plan, reply, generation_type, speaker)
            return
        # SillyTavern cleans up a reply twice, each time from the raw text: side effects of macros happen twice.
        # Where no macro ran, the second time gives the same.
        whole = not reply.interrupted
        text, ran = self._cleaned(plan, reply.text, generation_type, speaker, whole=whole)
        if generation_type == "continue":
            # The whole message: scripts run once more over its old part, and over the seam.
            text, _ = self._cleaned(plan, self._joint(plan) + reply.text, generation_type, speaker, whole=whole)
        elif ran:
            text, _ = self._cleaned(plan, reply.text, generation_type, speaker, whole=whole)
        extra, lines = self._extra(reply, speaker), state.turn_lines
        if lines:
            # SillyTavern sets empty reasoning on the last line before it stores a reply, no matter who wrote it.
            chat_lines.extra_of(lines[-1]).setdefault("reasoning", "")
        if generation_type == "continue" and lines:
            line = self._continue_line(text, extra)
        elif generation_type == "swipe" and "swipe_id" in lines[-1] and not chat_lines.is_user(lines[-1]):
            line = self._add_swipe(text, extra)
        else:
            line = self._add_line(text, extra, speaker, whole=whole)
        chat_lines.mark_partial(line, reply.interrupted)
        if line is lines[0]:
            state.show_first()
        if generation_type != "continue":
            state.take_reasoning(line)
            self._add_alternatives(plan, line, reply, generation_type, speaker)
        swipes, at = chat_lines.swipes_of(line), chat_lines.swipe_id_of(line)
        if at < len(swipes):
            swipes[at] = line["mes"]
            chat_lines.infos_of(line)[at] = chat_lines.info_of(line)
        self._text = chat_lines.text_of(line)

    def _joint(self, plan: ChatPlan) -> str:
        """Return the text to continue, and the separator."""
        context = self._state.context()
        # As the prompt had it, so scripts for prompts only end up in the chat. It is the last visible line, even if
        # a hidden one after it is the line that gets the text.
        text = plan.continued_text
        if context.text_completion or text.endswith(" "):
            return text
        return text + context.active_preset.continue_postfix

    def _handed_back(self, plan: ChatPlan, reply: Reply, generation_type: GenerationType, speaker: str | None) -> str:
        text, _ = self._cleaned(plan, reply.text, generation_type, speaker)
        settings = self._state.context().settings.power_user.reasoning
        if generation_type == "quiet" and settings.auto_parse:
            found = split_reasoning(text, settings.prefix, settings.suffix)
            text = found[1] if found is not None else text
        return text

    def _extra(self, reply: Reply, speaker: str | None) -> JsonObject:
        context = self._state.context()
        preset = context.active_preset
        api = context.main_api if context.text_completion else preset.chat_completion_source
        reasoning = reply.reasoning
        if reasoning:
            with self._state.expanding(speaker=speaker) as workspace:
                reasoning = scripted(workspace, reasoning, RegexPlacement.REASONING)
        model = reply.model or ("" if context.text_completion else preset.model)
        extra: JsonObject = {
            "api": api,
            "model": model,
            "reasoning": reasoning,
            "reasoning_duration": None,
            "reasoning_signature": None,
        }
        if reasoning and self._streamed:
            extra["reasoning_type"] = "model"
        return extra

    def _add_line(self, text: str, extra: JsonObject, speaker: str | None, *, whole: bool) -> JsonObject:
        state = self._state
        context = state.context()
        if context.group is not None:
            with state.expanding(speaker=speaker) as workspace:
                context = workspace.context
        # SillyTavern trims the cleaned reply a second time here.
        if context.settings.power_user.trim_spaces and state.cleans_up and whole:
            text = trim(text)
        line: JsonObject = {
            "extra": extra,
            "name": context.character_name,
            "is_user": False,
            "send_date": state.now(),
            "mes": text,
        }
        if context.group is not None and speaker is not None:
            extra["gen_id"] = state.round
            line |= {"force_avatar": chat_lines.CHARACTER_AVATAR.format(speaker), "original_avatar": speaker}
        chat_lines.show(line)
        state.turn_lines.append(line)
        return line

    def _add_swipe(self, text: str, extra: JsonObject) -> JsonObject:
        line = self._state.turn_lines[-1]
        line["extra"] = chat_lines.extra_of(line) | extra
        line |= {"mes": text, "send_date": self._state.now(), "swipe_id": len(chat_lines.swipes_of(line))}
        chat_lines.swipes_of(line).append(text)
        chat_lines.infos_of(line)
        return line

    def _continue_line(self, text: str, extra: JsonObject) -> JsonObject:
        line = self._state.turn_lines[-1]
        line["mes"] = text
        own = chat_lines.extra_of(line)
        before = own.get("reasoning")
        own |= extra | {"reasoning": f"{before if isinstance(before, str) else ''}{extra['reasoning']}"}
        if not chat_lines.swipes_of(line):
            line |= {"swipe_id": 0, "swipes": [text], "swipe_info": [{}]}
        return line

    def _add_alternatives(
        self, plan: ChatPlan, line: JsonObject, reply: Reply, generation_type: GenerationType, speaker: str | None
    ) -> None:
        """Add further candidates as swipes."""
        for other in reply.alternatives:
            chat_lines.swipes_of(line).append(self._cleaned(plan, other, generation_type, speaker)[0])
            info = chat_lines.info_of(line)
            chat_lines.extra_of(info).pop("reasoning", None)
            infos = chat_lines.infos_of(line)
            infos[-1] = info

    # Tools

    async def _run_tools(self, reply: Reply, generation_type: GenerationType, speaker: str | None, depth: int) -> None:
        """Run the tools that a reply calls, store calls and results, and ask again."""
        state, lines = self._state, self._state.turn_lines
        context = state.context()
        if generation_type != "swipe" and not self._text and not chat_lines.extra_of(lines[-1]).get("reasoning"):
            lines.pop()
        tools = {tool.name: tool for tool in context.tools}
        invocations: list[JsonObject] = []
        stealth = False
        for call in reply.tool_calls:
            tool = tools.get(call.name)
            outcome = await self._outcome(call, known=tool is not None)
            if tool is not None and tool.stealth:
                stealth = True
                continue
            invocations.append(
                {
                    "id": call.id,
                    "displayName": (tool.display_name or tool.name) if tool is not None else call.name,
                    "name": call.name,
                    "parameters": call.arguments,
                    "result": outcome[0],
                    "error": outcome[1],
                    "signature": None,
                    "reasoning": None,
                }
            )
        if invocations:
            extra = self._extra(replace(reply, reasoning=""), speaker)
            api, model = str(extra["api"]), str(extra["model"])
            lines.append(chat_lines.tool_line(invocations, state.now(), api=api, model=model))
        await self._host.checkpoint()
        if stealth or depth >= context.active_preset.tool_call_recurse_limit:
            return
        # The answer is a new line, also after a swipe, whose empty text stays as the shown swipe.
        await self.generate("normal", "", speaker, depth=depth + 1)

    async def _outcome(self, call: ToolCall, *, known: bool) -> tuple[str, bool]:
        if not known:
            return f'Error: No tool with the name "{call.name}" has been registered.', True
        unreadable = json_error(call.arguments or "{}")
        if unreadable:
            return f"SyntaxError: {unreadable}", True
        outcome = await self._host.call_tool(call)
        self._state.look_at_lines()  # the tool may have changed any line
        return outcome.result, outcome.failed
