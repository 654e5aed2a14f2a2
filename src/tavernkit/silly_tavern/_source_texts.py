"""The texts of chat lines, traced to their places, and which texts of a prompt a source map knows already."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

from tavernkit._text.regex_scripts import Stretch
from tavernkit._text.traced import Origin
from tavernkit.prompt._block import Block
from tavernkit.prompt._context import FREEZE, TAIL
from tavernkit.prompt._known_texts import KnownTexts, MakeReplay, TurnInputs
from tavernkit.prompt._line_forms import KnownLine, LineForm, LinePart, WrittenLines
from tavernkit.prompt._plan import Plan
from tavernkit.prompt._source_spans import TextSource
from tavernkit.prompt._steady_texts import has_pure_macros_only
from tavernkit.prompt._traced_inputs import traced_text
from tavernkit.prompt._traced_spans import origin_of
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._chat_completion.assembly import LORE_PROMPTS
from tavernkit.silly_tavern._chat_completion.history_messages import PLAIN_EXTRA
from tavernkit.silly_tavern._chat_completion.plan import ChatPlan
from tavernkit.silly_tavern._chat_completion.prompt_collection import (
    CHAT_HISTORY,
    DIALOGUE_EXAMPLES,
)
from tavernkit.silly_tavern._context import SillyTavernContext
from tavernkit.silly_tavern._placed_texts import line_of_block
from tavernkit.silly_tavern._scripts.prompt_scripts import ChosenScripts
from tavernkit.silly_tavern._state import Half
from tavernkit.silly_tavern._world_info.result import WorldInfoResult

METADATA_TEXTS = ("note_prompt", "scenario", "mes_example", "system_prompt")
"""The texts of a chat's metadata that can be in a prompt."""

NEWEST_LINES = 4
"""How many of the newest lines of a chat are always traced, because macros such as ``{{lastMessage}}`` use them."""

SHORT_CHAT = 40
"""How many of the newest lines a build for a source map has at most, if that gives the same texts."""

SPARE_LINES = 2
"""How many lines it has besides those that it seems to need: hidden ones do not count."""

_MESSAGE = "message"
"""Stands for the user's new message among the kinds of lines."""

_MACRO = re.compile(r"\{\{|<\w+>")

_SUMMARY = "memory"
"""The key of a summary of the chat, which is kept with a line."""


class LineTexts:
    """Returns lines of the chat, traced to their places in it."""

    def __init__(
        self,
        context: SillyTavernContext,
        built: SillyTavernContext,
        lines: Sequence[ChatMessage],
        plan: ChatPlan,
        known_texts: KnownTexts,
        forms: Mapping[object, LineForm],
        scripts: ChosenScripts | None,
        *,
        same: bool,
    ) -> None:
        """Find the lines that are in a plan unchanged, and those that are written alike.

        Args:
            context: The inputs of the build.
            built: The same after hooks changed them.
            lines: The chat as the build saw it.
            plan: The plan.
            known_texts: What the last map left.
            forms: Forms of lines that are known.
            scripts: The regex scripts, if their results for lines may be used.
            same: True if the last map was made from the same inputs.
        """
        self.lines = lines
        self._message = context.message
        self._chat = chat_name(context)
        self.known: dict[int, KnownLine] = {}
        """Lines that are in the plan, by the ids of their blocks."""
        self.whole: dict[int, KnownLine] = {}
        """Those that need not be built: they are blocks unchanged, or written as others are."""
        self._as_text = plan.rendered is not None
        self._scripts = scripts
        count = len(lines)
        # In a text prompt, the first message that is shown and the newest ones may be written in another way.
        self._first = next((index for index, line in enumerate(lines) if not line.is_system), 0)
        usual = range(count + 1)
        if self._as_text and not tells_sequences_apart(built):
            newest = next((index for index in range(count - 1, -1, -1) if lines[index].is_user), 0)
            usual = range(self._first + 1, min(count - NEWEST_LINES, newest))
        self.changed = {0, self._first, *range(max(count - NEWEST_LINES, 0), count)}
        """Lines that have to be traced: they are in the plan in another form, have a summary, or are the newest."""
        self.changed.update([index for index, line in enumerate(lines) if line.extra and _SUMMARY in line.extra])
        self.others: list[tuple[int, Block, object]] = []
        """The other blocks that are sent: their indices in the plan, and their places in the chat, or slots."""
        self._among = 0
        """How many lines come after the first block that is between lines."""
        written: list[tuple[int, KnownLine]] = []
        for number, block in enumerate(plan.blocks):
            key = id(block)
            line = known_texts.lines.get(key)
            if (
                line is None
                or line.block is not block
                or line.place >= count
                or line.line is not lines[line.place]
                or line.chat != self._chat
                or not (line.whole or (line.form is not None and line.form is forms.get(line.kind)))
                or (line.edits is not None and not same)
            ):
                index = line_of_block(block)
                if index is None or index > count:
                    if block.enabled:
                        self.others.append((number, block, block.slot if index is None else index))
                    if self.known and not self._among:
                        self._among = 1
                    continue
                line = self._found_line(block, index)
            if line.place < count:
                self.known[key] = line
                self._among += self._among > 0
            if line.whole or (line.form is not None and line.place in usual):
                self.whole[key] = line
            elif block.enabled and line.kind is not None and line.place in usual:
                written.append((number, line))
            else:
                self.changed.add(line.place)
                if block.enabled:
                    self.others.append((number, block, line.place))
        self.written = WrittenLines(forms, known_texts.formless, written)
        """Lines that are not sent as they are stored, and not known from another plan."""
        self.whole.update((id(line.block), line) for line in self.written.alike)
        self.others += [(number, line.block, line.place) for number, line in self.written.single]
        self.steady = [each for each in self.others if not isinstance(each[2], int) or each[2] in usual]
        """Those whose texts the next turn may have again."""
        self.others += [(number, line.block, line.place) for number, line in self.written.examples]
        self.changed.update([place for _, _, place in self.others if isinstance(place, int) and place < count])

    def _found_line(self, block: Block, index: int) -> KnownLine:
        """Return the line of a block; the user's new message comes after the last line."""
        kind: object = None
        edits: Stretch | None = None
        if index == len(self.lines):
            line, words = None, self._message
            whole = not self._as_text and block.content == words and "{" not in words
            written = _MESSAGE
        else:
            line = self.lines[index]
            words = line.mes
            if self._scripts is not None and block.content != words:
                edits = self._scripts.result(words, is_user=line.is_user)
                if edits is not None and edits.finding:
                    words = edits.text
                else:
                    edits = None
            whole = not self._as_text and block.content == words
            written = line.name, line.is_user, bool(line.force_avatar)
        if not whole and words and words in block.content and (line is None or line.extra.keys() <= PLAIN_EXTRA):
            before, _, after = block.content.partition(words)
            kind = written, before, after
        return KnownLine(block, index, line, self._chat, whole=whole, kind=kind, edits=edits)

    def kept(self, context: SillyTavernContext, plan: ChatPlan, known: Iterable[int]) -> Sequence[int]:
        """Return the lines of a prompt, without those that are known, unchanged or left out.

        Returns all of them if the result may depend on their number.

        Args:
            context: The inputs of the build.
            plan: The plan.
            known: Ids of blocks whose texts are known.
        """
        count = len(self.lines)
        timed = any(plan.timed_world_info.values()) or any(context.metadata.timed_world_info.values())
        if timed or context.vectors is not None or count <= 2 * SHORT_CHAT:
            return range(count)
        depth = context.settings.world_info.depth
        reach = max(NEWEST_LINES, int(min(depth, SHORT_CHAT)), self._among) + SPARE_LINES
        newest = range(count - min(reach, SHORT_CHAT), count)
        lines = [line.place for key in known if (line := self.known.get(key)) is not None]
        if plan.rendered is not None and 2 * (len(self.changed) - len(lines)) > len(self.known):
            return range(count)  # lines that do not fit must not make room for others
        self.changed.difference_update([index for index in lines if self._first < index < newest.start])
        return [*sorted(index for index in self.changed if index < newest.start), *newest]

    def half(self, context: SillyTavernContext, known: Container[int]) -> Half | None:
        """Return the half of a prompt that has all texts that are not known; None if both halves do.

        Args:
            context: The inputs that hooks left.
            known: Ids of blocks whose texts are known.
        """
        if context.volatile == TAIL:
            return None
        unknown = [(block, place) for _, block, place in self.others if id(block) not in known]
        places = [place for _, place in unknown]
        if not self._as_text:
            if _prompts_around_chat(context).issuperset(places):
                return "story"
            # Only hooks have to run if they changed the message, which is sent as they left it.
            said = context.message
            changed = all(place == len(self.lines) and block.content == said for block, place in unknown)
            return "chat" if changed and "{" not in said else None
        if context.active_context_template.in_chat:
            return None
        count = len(self.lines)
        numbers = [place for place in places if isinstance(place, int)]
        if len(numbers) == len(places):
            words = [self.lines[place].mes if place < count else self._message for place in numbers]
            return "chat" if all(map(has_pure_macros_only, words)) else None
        # Handlebars, which no chat build needs, is slow to import.
        from tavernkit.silly_tavern._text_completion.story import STORY_SLOTS

        return "story" if STORY_SLOTS.issuperset(places) else None

    def known_lore(
        self, context: SillyTavernContext, plan: ChatPlan, known: Container[int], half: Half | None
    ) -> WorldInfoResult | None:
        """Return the lore of a plan if a half of its prompt can be built with that: nothing else depends on the scan.

        Args:
            context: The inputs that hooks left.
            plan: The plan.
            known: Ids of blocks whose texts are known.
            half: The half.
        """
        lore = plan.lore_result
        if half is None or context.lore == FREEZE or not isinstance(lore, WorldInfoResult):
            return None
        if half == "chat":
            return lore
        only_lore = all(place in LORE_PROMPTS for _, block, place in self.others if id(block) not in known)
        pure = only_lore and all(has_pure_macros_only(entry.content) for entry in lore.activated_entries)
        return lore if pure else None

    def known_slots(self, known: Container[int]) -> set[object]:
        """Return the slots, apart from the chat, of which all blocks are known."""
        slots: set[object] = {place for _, block, place in self.others if place == block.slot and id(block) in known}
        return slots - {block.slot for _, block, _ in self.others if id(block) not in known}

    def has(self, block: Block) -> bool:
        """Return True if a block is an unchanged line of the chat, or the user's new message."""
        index = line_of_block(block)
        if index is None or index >= len(self.lines):
            return id(block) in self.whole
        return block.content == self.lines[index].mes

    def of_block(self, block: Block) -> str:
        """Return the text of a block; for an unchanged line of the chat, with its place."""
        known = self.whole.get(id(block))
        if known is not None:
            if not known.text:
                words = known.edited or self._line(known.place)
                form = known.form
                known.text = words if form is None else form.write(block.content, words, self._origins(known)[1])
            return known.text
        if type(block.content) is not str or not self.has(block):
            return block.content
        index = line_of_block(block)
        assert index is not None
        return self._line(index)

    def words(self) -> list[str]:
        """What the lines say, as they are stored and as regex scripts changed them."""
        edits = [line.edits.text for line in self.whole.values() if line.edits is not None]
        return [*[line.mes for line in self.lines], *edits]

    def repeat_scripts(self, scripts: MakeReplay | None) -> None:
        """Repeat what regex scripts did to lines that need not be built.

        Args:
            scripts: The scripts with traced macros.
        """
        if scripts is None or self._scripts is None:
            return
        again: dict[bool, Callable[[str, Stretch], str]] = {}
        for known in self.whole.values():
            if known.edits is None or known.edited:
                continue
            is_user = self.lines[known.place].is_user
            replay = again.get(is_user) or again.setdefault(is_user, scripts(is_user))
            known.edited = replay(self._line(known.place), known.edits)

    def unused(self, plan: Plan) -> Iterator[tuple[str, str]]:
        """Yield the lines that are not in a plan, each with the reason."""
        used = {line_of_block(block) for block in plan.enabled_blocks}
        left_out = next((each.reason for each in plan.omissions if each.kind == "history"), "")
        for index, line in enumerate(self.lines):
            if index not in used:
                yield self._line(index), "hidden in the chat" if line.is_system else left_out

    def learn_forms(self, contents: Sequence[str]) -> bool:
        """Learn the forms of lines from those that were traced; return False if lines are left without one.

        Args:
            contents: The texts of all blocks of the plan, traced where they have to be.
        """
        return self.written.learn(contents, self._origins)

    def forget_forms(self) -> bool:
        """Leave lines that are written alike to a build of all; return True if there are some."""
        places = [line.place for line in self.whole.values() if not line.whole]
        self.whole = {key: line for key, line in self.whole.items() if line.whole}
        self.changed.update(places)
        return bool(places)

    def source_of(self, known: KnownLine, part: LinePart) -> TextSource:
        """Return the place of a line's words, or of its name."""
        index = known.place
        if index == len(self.lines):
            return TextSource("message", "", "" if part == "words" else "/name", self._message)
        line = self.lines[index]
        if part == "words":
            return TextSource("chat", self._chat, f"/{index}/mes", line.mes, line.name)
        return TextSource("chat", self._chat, f"/{index}/name", line.name, line.name)

    def _origins(self, known: KnownLine) -> tuple[Origin, Origin]:
        """Return both for a traced text."""
        return origin_of(self.source_of(known, "words")), origin_of(self.source_of(known, "name"))

    def _line(self, index: int) -> str:
        if index == len(self.lines):
            return traced_text(self._message, "message", "", "")
        line = self.lines[index]
        return traced_text(line.mes, "chat", self._chat, f"/{index}/mes", line.name)


def _prompts_around_chat(context: SillyTavernContext) -> set[object]:
    """Return the prompts of the list that are not in the chat."""
    prompts = context.active_preset.effective_prompts
    around: set[object] = {prompt.identifier for prompt in prompts if prompt.injection_position != 1}
    return around - {CHAT_HISTORY, DIALOGUE_EXAMPLES}


def tells_sequences_apart(context: SillyTavernContext) -> bool:
    """Return True if the text before a line shows which of the instruct template's sequences it is.

    Args:
        context: The inputs that hooks left.
    """
    template = context.active_instruct
    if not template.enabled:
        return True
    for usual, *special in (
        (template.input_sequence, template.first_input_sequence, template.last_input_sequence),
        (template.output_sequence, template.first_output_sequence, template.last_output_sequence),
    ):
        texts = [usual, *filter(None, special)]
        # Macros may make the same of two texts, and line breaks may be joined.
        if len(texts) > 1 and any(map(_MACRO.search, texts)):
            return False
        if len({"".join(text.split()) for text in texts}) < len(texts):
            return False
    return True


def has_own_chat(context: SillyTavernContext, built: SillyTavernContext) -> bool:
    """Return True if hooks left the chat and the finished prompt alone.

    Args:
        context: The inputs.
        built: The same after hooks changed them.
    """
    return (context.hooks is None or context.hooks.only_before) and built.history is context.history


def turn_inputs(context: SillyTavernContext, plan: ChatPlan, lines: Sequence[ChatMessage]) -> TurnInputs | None:
    """Return the inputs that a plan shares with the next one; None if its texts may have other sources.

    Args:
        context: The inputs that hooks left.
        plan: The plan.
        lines: The lines of the chat.
    """
    injected = list(context.injections or ())
    # Of two injections with the same words, filters may leave the one or the other.
    if context.vectors is not None or any(each.filter is not None for each in injected):
        return None
    if len({each.content for each in injected}) < len(injected):
        return None
    lore = plan.lore_result.activated_entries if isinstance(plan.lore_result, WorldInfoResult) else ()
    more = [str(getattr(context.metadata, name)) for name in METADATA_TEXTS]
    more += [f"{each.id}\n{each.position} {each.depth} {each.role}\n{each.content}" for each in injected]
    return TurnInputs(context, lore, more, lines, _words)


def _words(line: object) -> object:
    return (line.name, line.mes) if isinstance(line, ChatMessage) else None


def chat_name(context: SillyTavernContext) -> str:
    """Return the name under which lines of the chat are sources."""
    return context.chat_id or "chat"
