"""HypaV3: many small summaries, of which the important, recent, similar and a few random ones are shown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values.convert import sort_by
from tavernkit._text.js_values.numbers import as_float
from tavernkit._values import EMPTY_OBJECT, FrozenObject, JsonObject, is_mapping, is_sequence, thaw_object
from tavernkit.risu_ai._chat.prompt_message import NEW_CHAT_MEMO, NEW_EXAMPLE_MEMO, PromptMessage
from tavernkit.risu_ai._limits import MAX_MEMORY_QUERIES
from tavernkit.risu_ai._memory.contract import (
    SUMMARY_FAILED,
    MemoryInput,
    MemoryOutcome,
    Similarity,
    as_lines,
    ask_for_summary,
    memory_message,
    paragraphs,
    without_thoughts,
)
from tavernkit.risu_ai._objects import whole_number
from tavernkit.risu_ai.errors import MemoryFailedError


@dataclass(frozen=True, slots=True, kw_only=True)
class HypaV3Settings:
    """One preset of HypaV3, with our own names."""

    memory_ratio: float = 0.2
    extra_ratio: float = 0
    batch: int = 6
    recent_ratio: float = 0.4
    similar_ratio: float = 0.4
    similarity_correction: bool = False
    preserve_orphaned: bool = False
    skip_user: bool = False
    experimental: bool = False
    prompt: str = ""

    @classmethod
    def of(cls, database: FrozenObject) -> HypaV3Settings:
        """Read the selected preset of a database."""
        presets, chosen = database.get("hypaV3Presets"), database.get("hypaV3PresetId")
        index = whole_number(chosen, 0)
        preset = presets[index] if is_sequence(presets) and 0 <= index < len(presets) else None
        found = preset.get("settings") if is_mapping(preset) else None
        values: Mapping[str, object] = found if is_mapping(found) else EMPTY_OBJECT
        prompt = values.get("summarizationPrompt")
        return cls(
            memory_ratio=_number(values, "memoryTokensRatio", 0.2),
            extra_ratio=_number(values, "extraSummarizationRatio", 0),
            batch=max(int(_number(values, "maxChatsPerSummary", 6)), 1),
            recent_ratio=_number(values, "recentMemoryRatio", 0.4),
            similar_ratio=_number(values, "similarMemoryRatio", 0.4),
            similarity_correction=bool(values.get("enableSimilarityCorrection")),
            preserve_orphaned=bool(values.get("preserveOrphanedMemory")),
            skip_user=bool(values.get("doNotSummarizeUserMessage")),
            experimental=bool(values.get("useExperimentalImpl")),
            prompt=prompt if isinstance(prompt, str) else "",
        )


def _number(values: Mapping[str, object], name: str, default: float) -> float:
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return default
    number = as_float(value)
    return number if math.isfinite(number) else default


KEPT_ITEMS = 3
QUERY_ITEMS = 3
RANK_CONSTANT = 60
OPEN, CLOSE = "<Past Events Summary>", "</Past Events Summary>"


@dataclass(slots=True)
class Summary:
    """One stored summary and the messages it covers; ``source`` is the chat's own object."""

    text: str
    memos: list[str | None]
    important: bool = False
    source: JsonObject = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        """The summary as RisuAI stores it."""
        if self.source:
            return self.source
        return {"text": self.text, "chatMemos": [*self.memos], "isImportant": self.important, "tags": []}


def hypa_v3(given: MemoryInput) -> MemoryOutcome:
    """Summarise what does not fit in batches, and show the relevant summaries."""
    return _HypaV3(given, HypaV3Settings.of(given.settings)).run()


class _HypaV3:
    def __init__(self, given: MemoryInput, settings: HypaV3Settings) -> None:
        self.given = given
        self.settings = settings
        self.items = list(given.items)
        self.total: float = given.total - given.max_response
        self.summaries = _load(given)
        self.start = 0
        self.metrics: dict[str, list[int]] = {}
        self.reserved: float = 0

    def run(self) -> MemoryOutcome:
        if self.settings.recent_ratio + self.settings.similar_ratio > 1:
            raise MemoryFailedError("memory_ratios_over_one", "recent and similar memory ask for more than all of it")
        self.forget_vanished()
        self.start = self.first_unsummarised()
        self.total -= self.given.cost(self.items[: self.start])
        available, before = self.reserve(), len(self.summaries)
        try:
            if self.total > self.given.max_context:
                self.summarise()
            if not self.summaries:
                return self.outcome(None if self.settings.experimental else _block(()))
            chosen = self.select(available)
            return self.outcome(_block(self.summaries[index].text for index in chosen))
        except MemoryFailedError as error:
            if len(self.summaries) > before or error.code == SUMMARY_FAILED:
                error.stored = {"hypaV3Data": self.stored()}
            raise

    def forget_vanished(self) -> None:
        if self.settings.preserve_orphaned:
            return
        present = {item.memo for item in self.items} | {None}  # the greeting has no id and always counts as present
        self.summaries = [each for each in self.summaries if all(memo in present for memo in each.memos)]

    def first_unsummarised(self) -> int:
        if not self.summaries or not self.summaries[-1].memos:
            return 0
        last = self.summaries[-1].memos[-1]
        found = next((i for i, item in enumerate(self.items) if item.memo == last), None)
        return 0 if found is None else found + 1

    def reserve(self) -> float:
        """Reserve tokens for memory, as few as possible while there is none; return the budget of summaries."""
        empty = self.given.counter.message(memory_message(_block(())))
        share = math.floor(self.given.max_context * self.settings.memory_ratio)
        least = 0 if self.settings.experimental else empty
        spare = not self.summaries and self.total + least <= self.given.max_context
        self.reserved = least if spare else share
        self.total += self.reserved
        return 0 if spare else share - empty

    def summarise(self) -> None:
        batches: list[list[PromptMessage]] = []
        self.shorten(batches)
        for batch in batches:
            self.add_summary(batch)

    def add_summary(self, items: list[PromptMessage]) -> None:
        text = self.ask(as_lines(items))
        self.summaries.append(Summary(text, [item.memo for item in items]))

    def shorten(self, batches: list[list[PromptMessage]]) -> None:
        target = self.given.max_context * (1 - self.settings.extra_ratio)
        while self.total > target:
            left = len(self.items) - self.start
            if left <= KEPT_ITEMS:
                if self.total <= self.given.max_context:
                    return
                raise MemoryFailedError(
                    "memory_cannot_summarize",
                    "the prompt is too long and no more of the chat can be summarised",
                    input_tokens=int(self.total),
                    max_context=self.given.max_context,
                )
            batch = self.batch()
            cost = self.given.cost(batch)
            if self.total <= self.given.max_context and self.total - cost < target:
                return
            wanted = [item for item in batch if self.summarisable(item)]
            if wanted and self.settings.experimental:
                batches.append(wanted)  # the summariser is asked only once all batches are known
            elif wanted:
                self.add_summary(wanted)
            self.total -= cost  # of all items, also those that are not summarised: they are gone as well
            self.start += len(batch)

    def batch(self) -> list[PromptMessage]:
        end = len(self.items) - KEPT_ITEMS
        if not self.settings.experimental:
            return self.items[self.start : min(self.start + self.settings.batch, end)]
        batch: list[PromptMessage] = []
        counted = 0
        for place in range(self.start, end):
            if counted >= self.settings.batch:
                break
            item = self.items[place]
            batch.append(item)
            counted += self.summarisable(item)
        return batch

    def summarisable(self, item: PromptMessage) -> bool:
        marker = item.memo in (NEW_CHAT_MEMO, NEW_EXAMPLE_MEMO) or (item.name or "").startswith("example_")
        own = item.role == "user" and self.settings.skip_user
        return not marker and not item.blank and not own

    def ask(self, text: str) -> str:
        try:
            answer = without_thoughts(ask_for_summary(self.given, text, self.settings.prompt))
        except MemoryFailedError as error:
            if error.code != SUMMARY_FAILED:
                raise
            raise MemoryFailedError(SUMMARY_FAILED, f"[HypaV3] Summarization failed: Error: {error}") from error
        if not answer:
            raise MemoryFailedError("empty_summary", "the summary is empty")
        return answer

    def cost_of(self, index: int) -> int:
        """Return what RisuAI reserves for a summary: a message of its own, with the blank line after it."""
        return self.given.counter.message(memory_message(f"{self.summaries[index].text}\n\n"))

    def select(self, available: float) -> list[int]:
        important = self.take([i for i, each in enumerate(self.summaries) if each.important], available)
        available -= sum(map(self.cost_of, important))
        used = set(important)
        settings = self.settings
        random_ratio = 1 - settings.recent_ratio - settings.similar_ratio

        recent_room = math.floor(available * settings.recent_ratio)
        recent = self.take([i for i in reversed(range(len(self.summaries))) if i not in used], recent_room)
        used.update(recent)
        unused_recent = recent_room - sum(map(self.cost_of, recent))

        similar_room = math.floor(available * settings.similar_ratio)
        if random_ratio <= 0:  # otherwise RisuAI gives what is left to random memory
            similar_room += unused_recent
            unused_recent = 0
        similar = self.take(self.resembling(used), similar_room) if settings.similar_ratio > 0 else []
        used.update(similar)
        unused_similar = similar_room - sum(map(self.cost_of, similar))

        random: list[int] = []
        if random_ratio > 0:
            room = math.floor(available * random_ratio) + unused_recent + unused_similar
            random = self.take(self.shuffled(used), room, skip=True)
            used.update(random)
        self.metrics = {
            "lastImportantSummaries": important,
            "lastRecentSummaries": recent,
            "lastSimilarSummaries": similar,
            "lastRandomSummaries": random,
        }
        return sorted(used)

    def take(self, indexes: Iterable[int], room: float, *, skip: bool = False) -> list[int]:
        taken: list[int] = []
        used = 0
        for index in indexes:
            cost = self.cost_of(index)
            if used + cost > room:
                if skip:  # only random memory goes on behind one that does not fit
                    continue
                break
            used += cost
            taken.append(index)
        return taken

    def resembling(self, used: set[int]) -> list[int]:
        owners: dict[str, list[int]] = {}
        for index, summary in enumerate(self.summaries):
            if index not in used:
                for part in paragraphs(summary.text):
                    owners.setdefault(part, []).append(index)
        queries = self.queries()  # asks the summariser even when there is nothing left to rank
        if not owners:
            return []
        ranked = Similarity(self.given.embed, list(owners)).ranked(queries)
        scores: dict[int, float] = {}
        for rank, part in enumerate(ranked, start=1):
            for index in owners[part]:
                scores[index] = scores.get(index, 0) + 1 / (RANK_CONSTANT + rank)
        return sorted(scores, key=lambda index: -scores[index])

    def queries(self) -> list[tuple[str, float]]:
        newest = [item for item in self.items[-QUERY_ITEMS:] if not item.blank]
        texts = [[item.content] for item in newest]
        if self.settings.experimental:
            texts = [paragraphs(item.content) for item in newest]
            if max(map(len, texts), default=0) > MAX_MEMORY_QUERIES:
                self.given.warn(
                    f"memory looks for what resembles the first {MAX_MEMORY_QUERIES} paragraphs of a message"
                )
                texts = [parts[:MAX_MEMORY_QUERIES] for parts in texts]
        if self.settings.similarity_correction and len(newest) > 1:
            texts.append([self.ask(as_lines(newest))])
        weights = len(texts) * (len(texts) + 1) / 2
        return [(part, (place / weights) / len(parts)) for place, parts in enumerate(texts, start=1) for part in parts]

    def shuffled(self, used: set[int]) -> list[int]:
        rest = [index for index in range(len(self.summaries)) if index not in used]
        return sort_by(rest, lambda _a, _b: self.given.random() - 0.5)

    def stored(self) -> JsonObject:
        data = self.given.chat.get("hypaV3Data")
        stored = thaw_object(data) if is_mapping(data) else {}
        stored["summaries"] = [each.to_json() for each in self.summaries]
        if self.metrics:
            stored["metrics"] = {name: [*indexes] for name, indexes in self.metrics.items()}
        return stored

    def outcome(self, text: str | None) -> MemoryOutcome:
        messages = [] if text is None else [memory_message(text)]
        items = [*messages, *self.items[self.start :]]
        total = self.total + self.given.cost(messages) - self.reserved
        if self.summaries and total > self.given.max_context:
            raise MemoryFailedError("memory_too_large", "the prompt does not fit the context even with memory")
        return MemoryOutcome(
            items=items, total=int(total + self.given.max_response), stored={"hypaV3Data": self.stored()}
        )


def _block(texts: Iterable[str]) -> str:
    return f"{OPEN}\n" + "\n\n".join(texts) + f"\n{CLOSE}"


def _load(given: MemoryInput) -> list[Summary]:
    data = given.chat.get("hypaV3Data")
    found = data.get("summaries") if is_mapping(data) else None
    return [
        Summary(
            text=str(each.get("text") or ""),
            memos=_memos(each.get("chatMemos")),
            important=bool(each.get("isImportant")),
            source=thaw_object(each),
        )
        for each in (found if is_sequence(found) else ())
        if is_mapping(each)
    ]


def _memos(value: object) -> list[str | None]:
    items: Sequence[object] = value if is_sequence(value) else ()
    return [item if isinstance(item, str) else None for item in items]
