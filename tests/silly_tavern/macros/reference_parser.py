"""The grammar of Macros 2.0 the straightforward way: a token per character, a function per rule.

Written from the description of the behaviour alone. The parser has to give the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from tavernkit._text.js_values import WHITESPACE

WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
VARIABLE = re.compile(r"[A-Za-z](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?")
OPERATORS = ("??=", "??", "||=", "||", "-=", "==", "!=", ">=", ">", "<=", "<", "+=", "=")

ITEM = {"text", "brace", "open"}
VALUE = {"open", "word", "other"}
ARG = VALUE | {"colon", "punctuation"}
LOOSE = ARG | {"double colon"}
CONTENTS = {"document": ITEM, "arg": ARG, "loose": LOOSE, "value": VALUE}
FOLLOWS = {**CONTENTS, "arg": LOOSE}
"""What may follow a macro, by where it is."""
RESUME = {
    "document": {"end"},
    **{f"macro in {where}": tokens for where, tokens in CONTENTS.items()},
    "body": {"close"},
    "variable": {"close"},
    "arg": {"double colon"},
}
"""With which tokens a rule goes on after an error; the others never do."""


class Token(NamedTuple):
    kind: str
    start: int
    end: int


def lex(text: str) -> tuple[list[Token], bool]:
    """Return the tokens, and whether characters were skipped."""
    tokens: list[Token] = []
    modes = ["text"]
    at, skipped = 0, False

    def add(kind: str, length: int, *, leave: int = 0, enter: str = "") -> None:
        nonlocal at
        tokens.append(Token(kind, at, at + length))
        at += length
        del modes[len(modes) - leave :]
        modes.extend([enter] if enter else [])

    while at < len(text):
        mode, two, one = modes[-1], text[at : at + 2], text[at]
        word = WORD.match(text, at)
        if mode == "text":
            end = at
            while end < len(text) and not text.startswith("{{", end):
                end += 1
            if end > at:
                add("text", end - at)
            elif text.startswith("{{{", at):
                add("brace", 1)
            else:
                add("open", 2, enter="head")
        elif mode == "name end":
            if two == "}}":
                modes.pop()
            elif one in WHITESPACE or one in ":|}":
                modes[-1] = "args"
            else:
                at, skipped = at + 1, True
        elif one in WHITESPACE:
            at += 1
        elif mode == "head":
            if two == "}}":
                add("close", 2, leave=1)
            elif two == "//":
                add("comment", 2, enter="args")
            elif one in ".$":
                add("prefix", 1, enter="variable")
            elif one in "!?~#/>":
                add("flag", 1)
            elif word is not None:
                add("name", len(word[0]), enter="name end")
            else:
                modes.pop()
        elif mode == "variable":
            name = VARIABLE.match(text, at)
            if name is None:
                modes.pop()
            else:
                add("variable", len(name[0]), leave=1, enter="operator")
        elif mode == "operator":
            operator = next((each for each in OPERATORS if text.startswith(each, at)), "")
            if two in ("++", "--"):
                add("step", 2)
            elif operator:
                add("operator", len(operator), leave=1, enter="value")
            else:
                modes.pop()
        elif two == "{{":
            add("open", 2, enter="head")
        elif mode == "args" and two == "::":
            add("double colon", 2)
        elif mode == "args" and one in ':="':
            add("colon" if one == ":" else "punctuation", 1)
        elif word is not None:
            add("word", len(word[0]))
        elif two == "}}":
            modes.pop()
        else:
            if one > "\uffff":  # two code units, and so two tokens
                tokens.append(Token("other", at, at + 1))
            add("other", 1)
    return [*tokens, Token("end", len(text), len(text))], skipped


@dataclass
class Part:
    start: int
    end: int
    empty: bool = True
    macros: list[Macro] = field(default_factory=list["Macro"])

    def extend(self, start: int, end: int) -> None:
        self.start = start if self.empty else self.start
        self.end, self.empty = end, False


@dataclass
class Macro:
    start: int
    end: int
    flags: str = ""
    name: str | None = None
    prefix: str = ""
    operator: str = ""
    args: list[Part] = field(default_factory=list[Part])
    value: Part | None = None
    complete: bool = False
    borrowed: bool = False


class PanicError(Exception):
    """The parser has skipped to a token with which an open rule goes on."""


class Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens, self.skipped = lex(text)
        self.at = 0
        self.rules: list[str] = []
        self.failed = False
        self.macros: list[Macro] = []
        self.rule("document", self.document)

    @property
    def kind(self) -> str:
        return self.tokens[self.at].kind

    @property
    def next_kind(self) -> str:
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)].kind

    def take(self, macro: Macro) -> str:
        token = self.tokens[self.at]
        self.at += 1
        macro.end = token.end
        return self.text[token.start : token.end]

    def rule(self, name: str, read: Callable[[], None]) -> None:
        self.rules.append(name)
        depth = len(self.rules)
        try:
            read()
        except PanicError:
            if self.kind not in RESUME.get(name, ()):
                raise
        finally:
            del self.rules[depth - 1 :]

    def panic(self) -> None:
        self.failed = True
        wanted = set[str]().union(*(RESUME.get(rule, ()) for rule in self.rules))
        while self.kind not in wanted:
            self.at += 1
        raise PanicError

    def document(self) -> None:
        while self.kind != "end":
            if self.kind == "open" and self.next_kind in ("flag", "comment", "prefix", "name"):
                self.macro("document", self.macros)
            elif self.kind in ITEM:
                self.at += 1
            else:
                self.failed = True
                while self.kind not in ITEM | {"end"}:
                    self.at += 1

    def macro(self, where: str, found: list[Macro]) -> None:
        opening = self.tokens[self.at]
        macro = Macro(opening.start, opening.end)
        found.append(macro)
        self.rule(f"macro in {where}", lambda: self.inside(macro, where))

    def inside(self, macro: Macro, where: str) -> None:
        self.take(macro)
        while self.kind == "flag":
            macro.flags += self.take(macro)
        if self.kind in ("name", "comment"):
            self.rule("body", lambda: self.body(macro))
        elif self.kind == "prefix":
            self.rule("variable", lambda: self.variable(macro))
        else:
            self.panic()
        if self.kind != "close":
            self.failed = True
            if self.kind in FOLLOWS[where]:
                macro.borrowed = True
                return
            if self.kind == "end" or self.next_kind != "close":
                self.panic()
            self.at += 1
        self.take(macro)
        macro.complete = True

    def body(self, macro: Macro) -> None:
        macro.name = self.take(macro)
        if self.kind == "double colon":
            self.rule("args", lambda: self.args(macro))
        elif self.kind in LOOSE:
            self.rule("args", lambda: self.loose(macro))

    def args(self, macro: Macro) -> None:
        while self.kind == "double colon":
            self.take(macro)
            part = Part(macro.end, macro.end)
            macro.args.append(part)
            self.rule("arg", lambda part=part: self.content(macro, part, "arg"))

    def loose(self, macro: Macro) -> None:
        if self.kind == "colon":
            self.take(macro)
        part = Part(macro.end, macro.end)
        macro.args.append(part)
        self.rule("loose", lambda: self.content(macro, part, "loose") if self.kind in LOOSE else self.panic())

    def content(self, macro: Macro, part: Part, where: str) -> None:
        while self.kind in CONTENTS[where]:
            start = self.tokens[self.at].start
            if self.kind != "open":
                self.take(macro)
                part.extend(start, macro.end)
                continue
            try:
                self.macro(where, part.macros)
            finally:
                macro.end = part.macros[-1].end
                part.extend(start, macro.end)

    def variable(self, macro: Macro) -> None:
        macro.prefix, macro.name = self.take(macro), ""
        if self.kind != "variable":
            self.failed = True
            if self.next_kind == "variable":
                self.at += 1
            elif self.kind != "close":
                self.panic()
        if self.kind == "variable":
            macro.name = self.take(macro)
        if self.kind in ("step", "operator"):
            self.rule("operator", lambda: self.operator(macro))

    def operator(self, macro: Macro) -> None:
        has_value = self.kind == "operator"
        macro.operator = self.take(macro)
        if has_value:
            part = macro.value = Part(macro.end, macro.end)
            self.rule("value", lambda: self.content(macro, part, "value"))
