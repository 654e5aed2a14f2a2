"""Macros 2.0 the straightforward way: every part of a text is parsed again where it is evaluated.

Written from the description of the behaviour alone, with nothing of the engine but its variables and JavaScript's
numbers and spaces. The engine has to give the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from tavernkit._text.js_values import to_number, trim, trim_start, utf16_length
from tavernkit.silly_tavern._macros import variables
from tavernkit.silly_tavern._macros.call import MacroFailure, to_text
from tavernkit.stores import VariablesStore
from tests.silly_tavern.macros.reference_parser import VARIABLE, Macro, Parser, Part

ELSE = "\x00\x1fELSE\x1f\x00"
MARKERS = {"user": "user", "bot": "char", "char": "char", "group": "group", "charifnotgroup": "charIfNotGroup"}


@dataclass(frozen=True)
class Definition:
    """Its minimum and maximum number of arguments, and what it returns."""

    least: int
    most: int
    run: Callable[[Reference, list[str], bool, int], str]
    is_list: bool = False

    def accepts(self, count: int) -> bool:
        return self.least <= count and (self.is_list or count <= self.most)


@dataclass
class Reference:
    """One expansion. ``problems`` are what SillyTavern reports."""

    store: VariablesStore
    problems: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def resolve(self, text: str, base: int) -> str:
        """Expand a whole text; ``base`` is added to the offsets of its macros."""
        text = re.sub(r"(?ai)\{\{time_(UTC[+-]\d+)\}\}", r"{{time::\1}}", text)
        text = re.sub(r"(?ai)<(\w+)>", lambda found: modern(found[0], found[1].lower()), text)
        parser = Parser(text)
        self.problems += [("syntax", "lexing")] if parser.skipped else []
        self.problems += [("syntax", "parsing")] if parser.failed else []
        expanded = self.document(text, base).replace("\\{", "{").replace("\\}", "}")
        return re.sub(r"(?:\r?\n)*\{\{[tT][rR][iI][mM]\}\}(?:\r?\n)*", "", expanded).replace(ELSE, "")

    def document(self, text: str, base: int) -> str:
        macros = complete(Parser(text).macros)
        pieces: list[str] = []
        used: set[int] = set()
        cursor = index = 0
        while index < len(macros):
            macro = macros[index]
            pieces.append(text[cursor : macro.start])
            cursor = macro.end
            if macro.prefix:
                pieces.append(self.shorthand(text, macro, base))
            elif is_closing(text, macro):
                pieces.append(text[macro.start : macro.end])
            else:
                closer = find_closer(text, macros, index, used)
                if closer is None:
                    pieces.append(self.call(text, macro, None, base))
                elif not takes_block(macro):
                    used.add(closer)
                    pieces.append(text[macro.start : macro.end])
                else:
                    pieces.append(self.call(text, macro, macros[closer].start, base))
                    cursor, index = macros[closer].end, closer
            index += 1
        return "".join([*pieces, text[cursor:]])

    def call(self, text: str, macro: Macro, block_end: int | None, base: int) -> str:
        name = (macro.name or "").lower()
        definition = MACROS.get(name)
        spans = [(part.start, part.end) for part in macro.args]
        block = text[macro.end : block_end] if block_end is not None else None
        args = [text[start:end] for start, end in spans]
        if name != "if":
            args = [self.document(text[start:end], base + utf16_length(text[:start])) for start, end in spans]
        if block is not None and name != "if":
            expanded = self.document(block, base + utf16_length(text[: macro.end]))
            args.append(expanded if "#" in macro.flags else dedent(expanded))
        elif block is not None:
            args.append(block)
        kept, cursor = "{{", macro.start + 2
        for (start, end), arg in zip(spans, args, strict=False):
            kept, cursor = kept + text[cursor:start] + arg, end
        kept += text[cursor : macro.end - 2 if macro.complete else macro.end]
        kept += "}}" + args[-1] + "}}" if block else "}}"
        if definition is None:
            return kept
        if not definition.accepts(len(args)):
            self.problems.append(("runtime_warning", "arity"))
            return kept
        offset = base + utf16_length(text[: macro.start])
        try:
            if name == "if":
                return self.condition(args[0], args[1], offset, keep_space="#" in macro.flags)
            return definition.run(self, args, block is not None, offset)
        except MacroFailure:
            self.problems.append(("internal_error", "handler"))
            return kept

    def condition(self, condition: str, content: str, offset: int, *, keep_space: bool) -> str:
        negated = condition.startswith("!")
        text = self.resolve(trim_start(condition[1:]) if negated else condition, offset)
        if text[:1] in (".", "$") and VARIABLE.fullmatch(text[1:]):
            text = to_text(variables.read(self.store, text[1:], "local" if text[0] == "." else "global"))
        elif text.lower() in MACROS and not MACROS[text.lower()].least:
            text = self.resolve("{{" + text + "}}", offset)
        wanted = (text != "" and trim(text).lower() not in ("false", "off", "0")) != negated
        branches = [content, ""]
        depth = 0
        for macro in Parser(content).macros:
            if not macro.complete or macro.prefix:
                continue
            if macro.name == "else" and not depth:
                branches = [content[: macro.start], content[macro.end :]]
                break
            if macro.name == "if":
                depth += -1 if "/" in macro.flags else len(macro.args) == 1
        resolved = self.resolve(branches[not wanted], offset)
        return resolved if keep_space else dedent(resolved)

    def shorthand(self, text: str, macro: Macro, base: int) -> str:
        try:
            return self.operate(text, macro, base)
        except MacroFailure:
            self.problems.append(("internal_error", "handler"))
            return text[macro.start : macro.end]

    def operate(self, text: str, macro: Macro, base: int) -> str:
        store, name, operator = self.store, macro.name or "", macro.operator
        scope = "local" if macro.prefix == "." else "global"
        if operator in ("++", "--"):
            return to_text(variables.add(store, name, 1.0 if operator == "++" else -1.0, scope))
        if operator in ("??", "??=") and store.has(name, scope):
            return to_text(variables.read(store, name, scope))
        reads = operator not in ("=", "+=", "-=", "??", "??=")
        current = variables.read(store, name, scope) if reads else ""
        if macro.value is None or (operator in ("||", "||=") and not variables.is_false(current)):
            return to_text(current)
        value = self.operand(text, macro.value, base)
        if operator in ("==", "!="):
            return to_text((to_text(current) == value) == (operator == "=="))
        if operator in ("=", "||=", "??="):
            variables.write(store, name, value, scope)
        elif operator == "+=":
            variables.add(store, name, value, scope)
        if operator in ("||", "||=", "??", "??="):
            return value
        if operator in ("=", "+="):
            return ""
        left, right = to_number(current), to_number(value)
        if math.isnan(right) or (math.isnan(left) and operator != "-="):
            self.problems.append(("runtime_warning", "shorthand"))
            return "" if operator == "-=" else "false"
        if operator == "-=":
            variables.add(store, name, -right, scope)
            return ""
        return to_text({">": left > right, ">=": left >= right, "<": left < right, "<=": left <= right}[operator])

    def operand(self, text: str, part: Part, base: int) -> str:
        pieces: list[str] = []
        cursor, lost = part.start, False
        for macro in part.macros:
            pieces.append("" if lost else text[cursor : macro.start])
            if macro.prefix:
                pieces.append(self.shorthand(text, macro, base))
            elif macro.name is None:
                pieces.append("{{" + text[macro.start + 2 : macro.end] + "}}")
            else:
                pieces.append(self.call(text, macro, None, base))
            cursor, lost = macro.end, lost or macro.borrowed
        return trim("".join([*pieces, "" if lost else text[cursor : part.end]]))


def modern(marker: str, name: str) -> str:
    return "{{" + MARKERS[name] + "}}" if name in MARKERS else marker


def complete(macros: list[Macro]) -> list[Macro]:
    """Replace macros without end by those in them."""
    found: list[Macro] = []
    for macro in macros:
        parts = [*macro.args, *([macro.value] if macro.value else [])]
        found += [macro] if macro.complete else [inner for part in parts for inner in complete(part.macros)]
    return found


def is_closing(text: str, macro: Macro) -> bool:
    if macro.prefix:
        return False
    args = macro.args
    return "/" in macro.flags or (macro.name == "//" and bool(args) and text[args[0].start : args[0].end][:1] == "/")


def takes_block(macro: Macro) -> bool:
    definition = MACROS.get((macro.name or "").lower())
    return definition is None or (not definition.is_list and definition.accepts(len(macro.args) + 1))


def find_closer(text: str, macros: list[Macro], opener: int, used: set[int]) -> int | None:
    name = (macros[opener].name or "").lower()
    depth = 1
    for index in range(opener + 1, len(macros)):
        macro = macros[index]
        if index in used or macro.prefix or (macro.name or "").lower() != name:
            continue
        depth += -1 if is_closing(text, macro) else takes_block(macro)
        if not depth:
            return index
    return None


def dedent(text: str) -> str:
    def indentation(line: str) -> int:
        return len(line) - len(line.lstrip(" \t"))

    lines = text.split("\n")
    margin = next((indentation(line) for line in lines if trim(line)), 0)
    if not margin:
        return trim(text)
    return trim("\n".join(line[margin:] if indentation(line) >= margin else trim_start(line) for line in lines))


def _set(reference: Reference, args: list[str], _block: bool, _offset: int) -> str:
    variables.write(reference.store, args[0], args[1], "local")
    return ""


MACROS: dict[str, Definition] = {
    "user": Definition(0, 0, lambda _reference, _args, _block, _offset: "Mira"),
    "reverse": Definition(1, 1, lambda _reference, args, _block, _offset: args[0][::-1]),
    "setvar": Definition(2, 2, _set),
    "getvar": Definition(
        1, 1, lambda reference, args, _block, _offset: to_text(variables.read(reference.store, args[0], "local"))
    ),
    "if": Definition(2, 2, lambda _reference, _args, _block, _offset: ""),
    "else": Definition(0, 0, lambda _reference, _args, _block, _offset: ELSE),
    "//": Definition(1, 1, lambda _reference, _args, _block, _offset: ""),
    "trim": Definition(0, 1, lambda _reference, args, block, _offset: args[-1] if block else "{{trim}}"),
    "show": Definition(0, 3, lambda _reference, args, _block, offset: f"<{offset}:{'|'.join(args)}>"),
    "list": Definition(0, 0, lambda _reference, args, _block, _offset: f"[{','.join(args)}]", is_list=True),
}
