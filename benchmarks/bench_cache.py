"""How much of a chat's prompts a prompt cache holds, in SillyTavern's order and with the planner. ``make bench-cache``.

Two chats of 60 turns (40 and 120 words) are replayed at four context sizes: one with lore only in the head, one with
the shipped example (a book whose keys occur in most messages, a card note at depth 4, constant lore at depth 2) and a
random macro, which is built as text completion, too. Everything is seeded: the numbers are the same on every machine.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import tavernkit as tk
from tavernkit import silly_tavern as st
from tavernkit._values import Json, is_list, is_object
from tavernkit.cache import CacheProfile, CacheReport, PromptCache, ReplayedTurn
from tavernkit.cards import User
from tavernkit.examples import example_path

TURNS = 60
WORDS = (40, 120)
WANTED = {4096: 0.75, 8192: 0.86, 16384: 0.93, 65536: 0.94}
"""The cached share that the planner has to reach, by context size."""

KEYS = ("lamp", "lighthouse", "storm glass", "Grey Fleet", "Hern", "captain")
VOCABULARY = ("sea", "wind", "rope", "stone", "kettle", "letter", "gull", "salt", "door", "coat", "tide", "rain", "ink")


STORY = st.ContextTemplate(
    story_string="{{#if system}}{{system}}\n{{/if}}{{#if wiBefore}}{{wiBefore}}\n{{/if}}{{description}}\n"
    "{{personality}}\n{{scenario}}\n{{#if wiAfter}}{{wiAfter}}\n{{/if}}{{trim}}"
)
CHAT_ML = st.InstructTemplate(
    input_sequence="<|im_start|>user",
    output_sequence="<|im_start|>assistant",
    system_sequence="<|im_start|>system",
    input_suffix="<|im_end|>\n",
    output_suffix="<|im_end|>\n",
    system_suffix="<|im_end|>\n",
)


@dataclass(frozen=True)
class Scene:
    """A chat and what it is built with."""

    name: str
    builder: st.Builder

    text: bool = False
    """True for text completion."""

    def turns(self, context: int, *, keep: bool, profile: CacheProfile | str = "openai") -> list[ReplayedTurn]:
        inputs: st.SillyTavernInputs = {"context_length": context, "response_length": 300}
        if self.text:
            inputs |= {"dialect": "text", "context_template": STORY, "instruct": CHAT_ML}
        if keep:
            inputs |= {"strategy": "cache", "lore": "freeze", "volatile": "tail", "cache_profile": profile}
        return list(st.replay(self.builder, **inputs))


def chat(turns: int = TURNS) -> st.ChatFile:
    """A chat in which nine of ten messages have a key of the book."""
    generator = random.Random(3)
    lines = [st.ChatMessage(name="Aria", mes="You are wet, Ann. Come in, and mind the third step.")]
    for _ in range(turns):
        lines.append(st.ChatMessage(name="Ann", mes=_text(generator, WORDS[0]), is_user=True))
        lines.append(st.ChatMessage(name="Aria", mes=_text(generator, WORDS[1])))
    return st.ChatFile(tuple(lines))


def _text(generator: random.Random, length: int) -> str:
    words = [generator.choice(VOCABULARY) for _ in range(length)]
    if generator.random() < 0.9:
        words[generator.randrange(length)] = generator.choice(KEYS)
    return " ".join(words) + "."


def scenes(turns: int = TURNS) -> tuple[Scene, Scene, Scene]:
    """Lore in the head only; everything that breaks caches; and the same as text completion."""
    card = tk.load(example_path("aria.json")).character
    book = st.WorldBook.load(example_path("tidewatch.json"))
    preset = st.Preset.load(example_path("preset.json"))
    history = chat(turns)
    plain = card.replace(extensions={})
    constant = st.WorldBook.from_json(
        {"entries": {"0": {"uid": 0, "constant": True, "position": 0, "content": "The sea is grey."}}}, name="World"
    )
    head = st.Builder(
        character=plain, user=User(name="Ann"), preset=preset, books=[constant], history=history, warn=None
    )
    data = preset.to_json()
    data["prompts"] = [_with_random(prompt) for prompt in data["prompts"]] if is_list(data["prompts"]) else []
    everything = st.Builder(
        character=card,
        user=User(name="Ann"),
        preset=st.Preset.from_json(data),
        books=[book],
        history=history,
        warn=None,
    )
    return (
        Scene("lore in the head", head),
        Scene("the shipped example", everything),
        Scene("the same, as text", everything, text=True),
    )


def _with_random(prompt: Json) -> Json:
    if not is_object(prompt) or prompt.get("identifier") != "jailbreak":
        return prompt
    return {**prompt, "content": f"{prompt['content']} The mood is {{{{random::calm::tense::eerie}}}}."}


def report_of(turns: Sequence[ReplayedTurn], profile: CacheProfile | str = "openai") -> CacheReport:
    cache = PromptCache(profile)
    for turn in turns:
        cache.send(turn.spans)
    return cache.report


def chat_messages(turn: ReplayedTurn) -> int:
    """How many messages of the chat are in the prompt."""
    return sum(span.origin.kind == "history" for span in turn.spans)


@dataclass(frozen=True)
class Row:
    """What one scene at one size came to."""

    scene: str
    context: int
    reference: float
    kept: float
    least_history: float
    """The smallest part of SillyTavern's history that the planner kept in a turn."""


def measure(scene: Scene, context: int) -> Row:
    reference, kept = scene.turns(context, keep=False), scene.turns(context, keep=True)
    return Row(
        scene=scene.name,
        context=context,
        reference=report_of(reference).common_share,
        kept=report_of(kept).common_share,
        least_history=min(
            chat_messages(mine) / chat_messages(theirs) for theirs, mine in zip(reference, kept, strict=True)
        ),
    )


def rows() -> Iterator[Row]:
    for scene in scenes():
        for context in WANTED:
            yield measure(scene, context)


def main() -> int:
    """Print the table; fail if a number is not reached."""
    missed = 0
    print(f"{'chat':20} {'context':>8} {'SillyTavern':>12} {'planner':>8} {'wanted':>7} {'least history':>14}")
    for row in rows():
        wanted = WANTED[row.context]
        good = row.kept >= wanted and row.least_history >= 0.5
        missed += not good
        shares = f"{row.reference:12.1%} {row.kept:8.1%} {wanted:7.0%} {row.least_history:14.0%}"
        print(f"{row.scene:20} {row.context:8} {shares}" + ("" if good else "  MISSED"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
