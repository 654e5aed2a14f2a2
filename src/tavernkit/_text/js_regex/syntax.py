"""The grammar of JavaScript regular expressions, with Annex B's leniency without the ``u`` and ``v`` flags."""

from __future__ import annotations

import re

from tavernkit._text.js_regex.classes import class_escape, parse_class, parse_property
from tavernkit._text.js_regex.limits import MAX_DEPTH, MAX_PARTS, MAX_SOURCE_LENGTH
from tavernkit._text.js_regex.nodes import (
    INFINITE,
    Alternatives,
    Assertion,
    BackReference,
    Char,
    CharClass,
    Dot,
    Group,
    Look,
    Node,
    Pattern,
    Repeat,
    Sequence,
)
from tavernkit._text.js_regex.scanner import JSRegexSyntaxError, Scanner, survey
from tavernkit._text.js_values.strings import utf16_length

_LOOKS = {"(?=": (False, False), "(?!": (False, True), "(?<=": (True, False), "(?<!": (True, True)}
_MODIFIERS = frozenset("ims")
_PLAIN = re.compile(r"[^\\^$.*+?()\[\]{}|]+")
_COUNTS = {"*": (0, INFINITE), "+": (1, INFINITE), "?": (0, 1)}
_QUANTIFIERS = frozenset("*+?{")


class _Characters(dict[str, Char]):
    """The nodes of characters; those of ASCII are made once."""

    def __missing__(self, character: str) -> Char:
        return Char(ord(character))


_CHARACTERS = _Characters({chr(code): Char(code) for code in range(128)})


def parse_pattern(source: str, flags: str) -> Pattern:
    """Parse a pattern; raises ``JSRegexSyntaxError`` for what JavaScript would refuse.

    Property names and the inside of ``v``-mode classes are left to the engine to check.
    """
    if utf16_length(source) > MAX_SOURCE_LENGTH:
        raise JSRegexSyntaxError(f"Invalid regular expression: {len(source)} characters are too many")
    return _Parser(source, flags).parse()


class _Parser:
    def __init__(self, source: str, flags: str) -> None:
        self.scanner = Scanner(source, flags)
        self.unicode = self.scanner.unicode
        self.group_count, self.names = survey(source, flags)
        self.group_number = 0
        self.has_modifiers = False
        self.part_count = 0
        # The names so far in each branch that is being read, the innermost last.
        self.names_in: list[set[str]] = []
        self.open_groups: set[int] = set()

    def parse(self) -> Pattern:
        root = self._disjunction()
        if self.scanner.more:
            raise self.scanner.error("Unmatched ')'")
        return Pattern(
            root,
            self.scanner.flags,
            self.group_count,
            self.names,
            self.has_modifiers,
            self.part_count,
            tuple(self.scanner.properties),
        )

    def _disjunction(self) -> Node:
        if len(self.names_in) > MAX_DEPTH:
            raise self.scanner.error("Regular expression too deeply nested")
        names: set[str] = set()
        branches: list[Node] = []
        while not branches or self.scanner.eat("|"):
            self.names_in.append(set())
            branches.append(self._alternative())
            names |= self.names_in.pop()
        if self.names_in:
            self.names_in[-1] |= names
        return branches[0] if len(branches) == 1 else Alternatives(tuple(branches))

    def _alternative(self) -> Node:
        scanner = self.scanner
        items: list[Node] = []
        while True:
            plain = _PLAIN.match(scanner.text, scanner.at)
            if plain is not None:
                items += map(_CHARACTERS.__getitem__, plain[0])
                scanner.at = plain.end()
                if scanner.peek() in _QUANTIFIERS:
                    items[-1] = self._quantify(items[-1])
            elif scanner.more and scanner.peek() not in "|)":
                items.append(self._term())
            else:
                return items[0] if len(items) == 1 else Sequence(tuple(items))

    def _term(self) -> Node:
        scanner = self.scanner
        if scanner.peek() != "\\":  # most escapes are characters
            self._count_part()
        if scanner.text.startswith("(?", scanner.at):
            for opening, (behind, negative) in _LOOKS.items():
                if scanner.eat(opening):
                    look = Look(self._disjunction(), behind, negative)
                    self._close()
                    # The web lets look-aheads be repeated, but not look-behinds.
                    return look if behind or self.unicode else self._quantify(look)
        character = scanner.take()
        if character in ("^", "$"):
            return Assertion(character)
        if character == "\\" and scanner.peek() in ("b", "B"):
            return Assertion("b" if scanner.take() == "b" else "B")
        return self._quantify(self._atom(character))

    def _count_part(self) -> None:
        self.part_count += 1
        if self.part_count > MAX_PARTS:
            raise self.scanner.error("Regular expression too large")

    def _atom(self, character: str) -> Node:
        scanner = self.scanner
        if character == ".":
            return Dot()
        if character == "(":
            return self._group()
        if character == "[":
            return parse_class(scanner, named=bool(self.names))
        if character == "\\":
            return self._escape()
        if character in "*+?":
            raise scanner.error("Nothing to repeat")
        if character == "{":
            scanner.at -= 1
            if self.unicode or self._braces() is not None:
                raise scanner.error("Nothing to repeat")
            scanner.at += 1
        elif character in "}]" and self.unicode:
            raise scanner.error("Lone quantifier brackets")
        return Char(ord(character))

    def _close(self) -> None:
        if not self.scanner.eat(")"):
            raise self.scanner.error("Unterminated group")

    def _group(self) -> Node:
        scanner = self.scanner
        if not scanner.eat("?"):
            group = self._capturing()
        elif scanner.eat("<"):
            self._check_name(scanner.group_name())
            group = self._capturing()
        else:
            modifiers = self._modifiers()
            group = Group(self._disjunction(), None, modifiers)
        self._close()
        return group

    def _capturing(self) -> Group:
        self.group_number += 1
        number = self.group_number
        self.open_groups.add(number)
        body = self._disjunction()
        self.open_groups.remove(number)
        return Group(body, number)

    def _check_name(self, name: str) -> None:
        """Refuse a duplicate name, unless it is in another branch of a disjunction."""
        if any(name in names for names in self.names_in):
            raise self.scanner.error("Duplicate capture group name")
        self.names_in[-1].add(name)

    def _modifiers(self) -> str:
        scanner = self.scanner
        start = scanner.at
        while scanner.peek() and scanner.peek() in "ims-":
            scanner.at += 1
        written = scanner.text[start : scanner.at]
        if not scanner.eat(":"):
            raise scanner.error("Invalid group")
        added, dash, removed = written.partition("-")
        letters = added + removed
        if not _MODIFIERS.issuperset(letters) or len(set(letters)) != len(letters) or (dash and not letters):
            raise scanner.error("Invalid flag group")
        self.has_modifiers = self.has_modifiers or bool(letters)
        return written

    def _quantify(self, atom: Node) -> Node:
        scanner = self.scanner
        counts = _COUNTS.get(scanner.peek())
        if counts is not None:
            scanner.at += 1
        elif scanner.peek() == "{":
            counts = self._braces()
            if counts is None and self.unicode:
                raise scanner.error("Incomplete quantifier")
        if counts is None:
            return atom
        self._count_part()
        least, most = counts
        if least > most:
            raise scanner.error("numbers out of order in {} quantifier")
        return Repeat(atom, min(least, INFINITE), min(most, INFINITE), greedy=not scanner.eat("?"))

    def _braces(self) -> tuple[int, int] | None:
        """Read ``{2}``, ``{2,}`` or ``{2,3}``; anything else is left alone."""
        scanner = self.scanner
        start = scanner.at
        scanner.at += 1
        least = scanner.digits()
        most = least
        if least and scanner.eat(","):
            most = scanner.digits()
        if least and scanner.eat("}"):
            return _count(least), _count(most) if most else INFINITE
        scanner.at = start
        return None

    def _escape(self) -> Node:
        scanner = self.scanner
        character = scanner.peek()
        if not character:
            raise scanner.error("\\ at end of pattern")
        if character in "123456789":
            reference = self._numbered_reference()
            if reference is not None:
                return reference
        if character == "k" and (self.unicode or self.names):
            return self._named_reference()
        if character in "pP" and self.unicode:
            return parse_property(scanner)
        item = class_escape(scanner, in_class=False, named=bool(self.names))
        return CharClass((item,)) if isinstance(item, str) else Char(item)

    def _reference(self, groups: tuple[int, ...]) -> Node:
        """Make a reference to groups. A group is empty inside itself: each iteration of a repetition resets it."""
        outside = tuple([number for number in groups if number not in self.open_groups])
        return BackReference(outside) if outside else Group(Sequence(()))

    def _named_reference(self) -> Node:
        groups = self.names.get(self.scanner.group_name()) if self.scanner.eat("k<") else ()
        if not groups:
            raise self.scanner.error("Invalid named reference" if groups == () else "Invalid named capture referenced")
        return self._reference(groups)

    def _numbered_reference(self) -> Node | None:
        start = self.scanner.at
        number = _count(self.scanner.digits())
        if number <= self.group_count:
            return self._reference((number,))
        if self.unicode:
            raise self.scanner.error("Invalid escape")
        self.scanner.at = start
        return None


def _count(digits: str) -> int:
    """Read a count; one with too many digits to matter is infinite."""
    return int(digits) if len(digits.lstrip("0")) < 10 else INFINITE
