"""What holds for every preset, character, chat and build, whatever is in them."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

from hypothesis import strategies as st

from tavernkit.cards import User
from tavernkit.errors import MaxTokensExceededError
from tavernkit.risu_ai import Builder, Preset, RequestFailedError, RisuCharacter, RisuPlan, Settings
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._chat_templates.template import ChatTemplate, apply_named_template
from tavernkit.risu_ai._files.silly_tavern_preset import preset_from_chat_preset, to_chat_preset
from tavernkit.risu_ai._models import FIRST_SYSTEM
from tavernkit.risu_ai._prompt_template.cards import read_cards, write_card
from tavernkit.risu_ai._requests.reformat import reformat
from tavernkit.risu_ai._sending.replies import cut_incomplete, ends_closed
from tavernkit.risu_ai.errors import ChatTemplateError

PIECES = [
    *"ab {}<>:$@.\n\r🙂é",
    *("{{user}}", "{{char}}", "{{slot}}", "{{original}}", "{{position::x}}", "{{setvar::a::1}}", "{{getvar::a}}"),
    *("@@user\n", "@@system\n", "@@depth 1\n", "@@end\n", "@@position pt_x\n", "@@inject_at main\n"),
    *("<|im_start|>", "<Thoughts>", "</Thoughts>", "<START>\n", "{{char}}: ", "$&", "{{inlay::x}}", "\ud83d"),
]
texts = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
scalars = st.none() | st.booleans() | st.integers(-5, 300) | st.floats(allow_nan=False) | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=5
)

TYPES = [
    *("plain", "jailbreak", "cot", "chatML", "persona", "description", "lorebook"),
    *("postEverything", "memory", "authornote", "chat", "cache", "x"),
]
cards = st.fixed_dictionaries(
    {"type": st.sampled_from(TYPES)},
    optional={
        "type2": st.sampled_from(["main", "normal", "globalNote", 3]),
        "text": texts | scalars,
        "role": st.sampled_from(["system", "user", "bot", "assistant", "all", None]),
        "innerFormat": texts,
        "defaultText": texts,
        "rangeStart": st.sampled_from([0, 1, -2, -1000, "1", None, 99, 1.5]),
        "rangeEnd": st.sampled_from(["end", 0, 3, -1, None, 99]),
        "chatAsOriginalOnSystem": st.booleans(),
        "depth": st.sampled_from([0, 1, 2, -1, 99, None]),
        "name": texts,
    },
)
templates = st.none() | st.lists(cards, max_size=6)
lore = st.fixed_dictionaries(
    {"content": texts, "alwaysActive": st.booleans(), "key": texts},
    optional={
        "insertorder": st.integers(-5, 300) | texts,
        "comment": texts,
        "mode": st.sampled_from(["normal", "child"]),
    },
)
scripts = st.fixed_dictionaries(
    {"in": texts, "out": texts, "type": st.sampled_from(["editprocess", "editoutput", "editinput"])},
    optional={"flag": st.sampled_from(["g", "<order 3>", "<inject>", "i<cbs>"]), "ableFlag": st.booleans()},
)
characters = st.fixed_dictionaries(
    {"name": texts, "desc": texts, "firstMessage": texts, "chaId": st.just("c")},
    optional={
        "personality": texts,
        "exampleMessage": texts,
        "systemPrompt": texts,
        "replaceGlobalNote": texts,
        "depth_prompt": values | st.fixed_dictionaries({"depth": st.integers(-3, 9), "prompt": texts}),
        "utilityBot": st.booleans(),
        "globalLore": st.lists(lore, max_size=3),
        "customscript": st.lists(scripts, max_size=2),
        "alternateGreetings": st.lists(texts, max_size=2),
        "loreSettings": values,
        "newGenData": values,
        "inlayViewScreen": st.booleans(),
        "viewScreen": st.sampled_from(["emotion", "imggen", "none"]),
        "emotionImages": st.just([["joy", "x"]]),
    },
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "char"]), "data": texts},
    optional={
        "chatId": st.sampled_from(["a", "b", ""]),
        "saying": texts,
        "disabled": st.sampled_from([True, False, "allBefore"]),
    },
)
chats = st.fixed_dictionaries(
    {"message": st.lists(messages, max_size=5)},
    optional={"fmIndex": st.sampled_from([-1, 0, 5, None]), "note": texts, "scriptstate": st.just({"$a": "1"})},
)
MODELS = ["gpt4o", "mistral-large-latest", "novelai", "claude-3-opus", "reverse_proxy", "deepseek-chat", "nobody"]
databases = st.fixed_dictionaries(
    {"aiModel": st.sampled_from(MODELS), "promptTemplate": templates},
    optional={
        "mainPrompt": texts,
        "jailbreak": texts,
        "jailbreakToggle": st.booleans(),
        "globalNote": texts,
        "formatingOrder": st.lists(st.sampled_from(["main", "chats", "lastChat", "lorebook", "x"]), max_size=4),
        "promptSettings": st.dictionaries(
            st.sampled_from(["sendName", "sendChatAsSystem", "maxThoughtTagDepth", "postEndInnerFormat"]), scalars
        ),
        "maxContext": st.sampled_from([100000, 400, 200, 0, "300"]),
        "maxResponse": st.sampled_from([0, 100, -5]),
        "groupTemplate": texts,
        "groupOtherBotRole": st.sampled_from(["user", "assistant", "system", "x"]),
        "chainOfThought": st.booleans(),
        "automaticCachePoint": st.booleans(),
        "personaPrompt": texts,
        "removeIncompleteResponse": st.booleans(),
        "modules": values,
    },
)
scenes = st.tuples(databases, characters, chats)
chat_messages = st.lists(
    st.builds(PromptMessage, role=st.sampled_from(["system", "user", "assistant", None]), content=texts), max_size=6
)


def inputs(scene: Any) -> dict[str, Any]:
    database, owner, chat = scene
    return {
        "character": RisuCharacter.from_json(owner),
        "user": User(name="Ann"),
        "settings": Settings.from_json(database, warn=lambda _: None),
        "history": chat,
        "random": lambda: 0.5,
        "warn": None,
    }


def check_build(scene: Any) -> None:
    """A build gives a plan or the one error that says it does not fit; it explains itself and repeats."""
    try:
        plan = Builder().build(**inputs(scene))
    except MaxTokensExceededError:
        plan = Builder().build(**inputs(scene), on_overflow="return")
    assert isinstance(plan, RisuPlan)
    explanation = plan.explain()
    assert str(explanation)
    assert all(row.reason for row in (*explanation.blocks, *explanation.left_out))
    again = Builder().build(**inputs(scene), on_overflow="return")
    assert again.fingerprint() == plan.fingerprint()
    assert plan.to_request(warn=lambda _: None)["messages"] is not None
    assert isinstance(plan.to_text(), str)
    assert plan.to_dict()


def check_generic_strategies_fit(scene: Any) -> None:
    """With a generic strategy what may go goes, and the latest user message stays."""
    for strategy in ("group_order", "priority"):
        plan = Builder().build(**inputs(scene), strategy=strategy, on_overflow="return")
        assert plan.trim_report is not None


def check_send(scene: Any, replies: list[str]) -> None:
    """Whatever a model says or refuses, the chat that comes back can be built upon."""
    remaining = list(replies)

    def model(_: object) -> str:
        if not remaining:
            raise RequestFailedError("no more")
        return remaining.pop()

    result = Builder().send(model, **inputs(scene), message="Hi.")
    assert len(result.chat.messages) >= len(scene[2]["message"])
    again: dict[str, Any] = {**inputs(scene), "history": result.chat}
    Builder().build(**again, on_overflow="return")


def check_template_round_trip(template: list[Any]) -> None:
    """Cards that were read are written so that they are read the same."""
    read = read_cards(template, lambda _: None)
    assert read_cards([write_card(card) for card in read], lambda _: None) == read


def check_preset_goes_to_silly_tavern_and_back(value: dict[str, Any]) -> None:
    """Any preset can be written for SillyTavern, and what comes back is a preset."""
    written = to_chat_preset(Preset.from_json(value, warn=lambda _: None), warn=lambda _: None)
    assert preset_from_chat_preset(written, warn=lambda _: None).prompt_template is not None


def check_reformat(given: list[PromptMessage], flags: set[str]) -> None:
    """No message of a kind the model cannot take is left, and no text is lost."""
    before = [message.to_json() for message in given]
    found = reformat(given, flags, warn=lambda _: None)
    assert [message.to_json() for message in given] == before
    if "hasFullSystemPrompt" not in flags:
        allowed = 1 if FIRST_SYSTEM in flags else 0
        assert all(message.role != "system" for message in found[allowed:])
    if "requiresAlternateRole" in flags:
        rest = found[1:] if found and found[0].role == "system" else found
        assert all(a.role != b.role for a, b in itertools.pairwise(rest))


def check_chat_templates(given: list[PromptMessage], text: str) -> None:
    """Any template is rendered or refused; the named ones take any chat or refuse it."""
    for name in ("chatml", "llama2", "llama3", "gemma", "mistral", "vicuna", "alpaca"):
        try:
            assert isinstance(apply_named_template(name, given), str)
        except ChatTemplateError:
            assert name in {"gemma", "llama2"}
    with contextlib.suppress(ChatTemplateError):
        ChatTemplate(text).render(given, warn=lambda _: None)


def check_cut(text: str) -> None:
    """A reply is cut to a beginning of itself that ends as a sentence does."""
    cut = cut_incomplete(text)
    assert text.startswith(cut)
    assert ends_closed(cut)
