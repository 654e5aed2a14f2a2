"""The last token that decides: what fits a text-completion prompt to the token, and what does not."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tavernkit.silly_tavern import ChatMessage
from tests.silly_tavern.scene import card
from tests.silly_tavern.test_assembly import chat
from tests.silly_tavern.text_completion.scene import build
from tests.silly_tavern.text_completion.test_combinations import MARKED, NOTHING, PLAIN, settings

OLD, NEW = f"Lyra: {'x' * 60}\n", f"Mira: {'é' * 30}\n"  # 67 bytes each, which are 20 tokens
REPLY = "\nLyra:"
HISTORY = chat(OLD[6:-1], f">{NEW[6:-1]}")


def tokens(*texts: str) -> int:
    return sum(math.ceil(len(text.encode()) / 3.35) for text in texts)


def written(limit: int, **changes: Any) -> str:
    return build(
        **{
            "instruct": PLAIN,
            "context_template": NOTHING,
            "system_prompt": None,
            "history": HISTORY,
            "settings": settings(),
            "context_length": limit + 10,
            "response_length": 10,
            **changes,
        }
    ).prompt


@pytest.mark.parametrize(
    ("more", "given"),
    [
        (0, {}),
        (7, {"settings": settings(token_padding=7)}),
        (0, {"chat_metadata": {"cfg_guidance_scale": 1, "cfg_positive_prompt": "P" * 40}}),
        (0, {"chat_metadata": {"cfg_negative_prompt": "N" * 40}}),
        (12, {"chat_metadata": {"cfg_guidance_scale": 2, "cfg_positive_prompt": "P", "cfg_negative_prompt": "N" * 40}}),
        (4, {"context_template": NOTHING.replace(chat_start="***********")}),
    ],
)
def test_a_message_must_cost_less_than_what_is_left(more: int, given: dict[str, Any]) -> None:
    needed = tokens(REPLY, OLD, NEW) + more
    if "context_template" in given:
        needed = tokens("***********\n" + REPLY, OLD, NEW)
    assert "x" in written(needed + 1, **given)
    assert "x" not in written(needed, **given)
    assert "é" in written(needed, **given)


def test_what_stands_in_the_chat_is_served_before_it_and_blocks_it() -> None:
    deep = {"key": "k", "value": "i" * 50, "position": 1, "depth": 9, "role": 0}
    line = f"{'i' * 50}\n"
    needed = tokens(REPLY, line, NEW)
    assert written(needed + 1, extension_prompts=[deep]) == f"{line}{NEW[:-1]}{REPLY}"
    assert written(needed, extension_prompts=[deep]) == f"{line[:-1]}{REPLY}"
    assert written(tokens(REPLY, line), extension_prompts=[deep]) == ""


def test_examples_get_what_the_whole_prompt_leaves() -> None:
    lyra = card(mes_example="<START>\nLyra: one\n<START>\nLyra: two")
    block = "Lyra: one\n"
    needed = tokens(OLD + NEW + REPLY, block)
    assert written(needed + 1, character=lyra) == f"{block}{OLD}{NEW[:-1]}{REPLY}"
    assert written(needed, character=lyra) == f"{OLD}{NEW[:-1]}{REPLY}"
    pinned = settings(pin_examples=True)
    assert written(needed, character=lyra, settings=pinned) == f"{block}Lyra: two\n{NEW[:-1]}{REPLY}"


def test_a_continued_prompt_drops_the_oldest_and_writes_its_reply_line_again() -> None:
    continued = "z" * 55
    history = [*HISTORY, *chat(continued)]
    whole = f"{OLD}{NEW}Lyra:Lyra: {continued}"
    fits = tokens(whole + "\n" + REPLY)
    assert written(fits, history=history, generation_type="continue") == whole
    assert written(fits - 1, history=history, generation_type="continue") == f"{NEW}Lyra:{REPLY}Lyra: {continued}"


def test_a_chat_without_room_leaves_the_alignment_alone_with_the_reply_line() -> None:
    aligned = MARKED.replace(user_alignment_message="Go")
    assert written(1, instruct=aligned, history=chat("x" * 90)) == "<fu>\nGo\n<lb>\n"
    assert written(1, instruct=aligned, history=chat(">" + "x" * 90)) == ""


def test_continuing_a_message_that_is_written_as_nothing_drops_nothing() -> None:
    bare = MARKED.replace(
        output_sequence="", last_output_sequence="", output_suffix="", wrap=False, user_alignment_message="Go"
    )
    history = [*chat("x" * 90), ChatMessage(name="Lyra")]
    assert written(1, instruct=bare, history=history, generation_type="continue") == "<fu>Go"
