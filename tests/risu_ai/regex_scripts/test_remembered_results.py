"""What the runner remembers, against one new runner for every text and RisuAI's rule for the results it keeps."""

from __future__ import annotations

import random
from collections.abc import Hashable
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._cbs.engine import CBSEngine
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat, RisuMessage
from tavernkit.risu_ai._regex_scripts import RegexScript, RegexScriptRunner, ScriptMode, ScriptResult
from tavernkit.stores import InMemoryVariablesStore

ENGINE = CBSEngine()
PATTERNS = (
    *("a", "b", "(a)(b)?", "^", "$", "x*", "[ab]+", "(?<n>a)b", "(", "", "{{user}}", "{{getvar::v}}", "\\n", "A", "😀"),
)
OUTS = (
    *(
        "x",
        "$1",
        "$&$&",
        "{{random}}",
        "{{getvar::v}}",
        "{{user}}",
        "",
        "$n",
        "$n$1ame",
        "<b>",
        "{{role}}",
        "{{chatindex}}",
    ),
    *(
        "@@move_top T$1",
        "@@move_bottom $&>",
        "@@repeat_back",
        "@@repeat_back start",
        "@@inject",
        "@@emo happy",
        "@@nope",
    ),
)
FLAGS = (
    *(
        "",
        "g",
        "gi",
        "gg",
        "<cbs>",
        "<cbs>g",
        "<order 3>",
        "g<order 1,no_end_nl>",
        "<move_top>",
        "<inject>g",
        "y",
        "gy",
    ),
    *("<repeat_back>", "u", "zz", "<what>", "i<order x>", "s<emo>"),
)
TEXTS = ("ab a b", "aab{{user}}", "", "a", "ABab😀", "c\nd", "xyz", "{{getvar::v}}b", "<b>a</b>", "aaa bbb ccc")
MODES: tuple[ScriptMode, ...] = ("editprocess", "editprocess", "editprocess", "editoutput", "editdisplay")


def script(dice: random.Random) -> RegexScript:
    parts = dice.choice(PATTERNS), dice.choice(OUTS), dice.choice(MODES), dice.choice(FLAGS)
    return RegexScript(*parts, able_flag=dice.random() < 0.6)


class Remembering:
    """RisuAI's rule, without all that makes it quick."""

    def __init__(self) -> None:
        self.results: dict[Hashable, str] = {}

    def run(
        self, text: str, mode: ScriptMode, scripts: list[RegexScript], context: CBSContext, index: int, role: str
    ) -> ScriptResult:
        seen = context.replace(chat_index=index, chat_role=role)
        patterns = [
            ENGINE.expand(each.pattern, seen) if "<cbs>" in each.flag else each.pattern
            for each in scripts
            if each.type == mode
        ]
        key = (ENGINE.expand(text, seen), mode, tuple(patterns), index, role)
        if self.results.get(key):
            return ScriptResult(self.results[key])
        made = RegexScriptRunner(ENGINE).run(
            text, mode, scripts, context, index=index, chat_role=role, warn=lambda _: None
        )
        if patterns:
            self.results[key] = made.text
        return made


@given(st.integers(0, 2**40))
def test_results_are_remembered_as_in_risuai(seed: int) -> None:
    dice = random.Random(seed)
    scripts = [script(dice) for _ in range(dice.randint(0, 6))]
    messages = [RisuMessage(role=dice.choice(("user", "char")), data=dice.choice(TEXTS)) for _ in range(4)]
    character = RisuCharacter.from_json({"name": "B", "firstMessage": "ga", "emotionImages": [["happy", "p"]]})
    contexts = [
        CBSContext(
            char=character,
            user="Ann",
            chat=RisuChat(messages=tuple(messages)),
            variables=InMemoryVariablesStore(),
            random=random.Random(seed).random,
        )
        for _ in range(2)
    ]
    runner, rule = RegexScriptRunner(ENGINE), Remembering()
    for _ in range(dice.randint(1, 12)):
        if dice.random() < 0.3:
            value = dice.choice("pqab")
            for context in contexts:
                context.variables.set("v", value)
        text, mode = dice.choice(TEXTS), cast("ScriptMode", dice.choice(MODES[2:4]))
        index, role = dice.choice((-1, -1, 0, 1, 2, 3)), dice.choice(("", "user", "char"))
        made = runner.run(text, mode, scripts, contexts[0], index=index, chat_role=role, warn=lambda _: None)
        assert made == rule.run(text, mode, scripts, contexts[1], index, role)
    assert contexts[0].random() == contexts[1].random()
