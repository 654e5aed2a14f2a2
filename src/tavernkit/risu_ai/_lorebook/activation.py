"""What decorators do to an entry."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import number_to_string, parse_int
from tavernkit._values import FrozenJson
from tavernkit.risu_ai._cbs.hashing import hash_number
from tavernkit.risu_ai._lorebook.entry import Decorator, LorebookEntry
from tavernkit.risu_ai._lorebook.keys import Query
from tavernkit.risu_ai._lorebook.result import LoreInjection
from tavernkit.risu_ai.errors import DecoratorParseError

KEEP_PREFIX = "__internal_ka_"
DONT_PREFIX = "__internal_da_"
_DRAWN = 555  # RisuAI draws 5555 numbers before this one, modulo 1000
HASH_CACHE = 4096


@lru_cache(maxsize=HASH_CACHE)
def content_id(content: str) -> str:
    """Return the id of an entry without one: a hash of its content."""
    return number_to_string(hash_number(content, _DRAWN))


POSITIONS = ("before_desc", "after_desc", "personality", "scenario")
POINT_PREFIX = "pt_"
ROLES = ("system", "user", "assistant")
UI_PROMPTS = ("post_history_instructions", "system_prompt")
LOWEST_PRIORITY = -1000


@dataclass(slots=True)
class RunState:
    """The state of one scan.

    Once any entry has set them, the two flags stay set, and all entries activated from then on are marked, too.
    """

    chat_length: int
    greeting: float
    random: Callable[[], float]
    chat_variable: Callable[[str], str]
    keep: bool = False
    dont: bool = False
    markers: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def marks(self) -> bool:
        """True if activated entries are marked."""
        return self.keep or self.dont

    def marked(self, prefix: str, entry: LorebookEntry) -> bool:
        """Return True if an entry has a marker."""
        name = prefix + (content_id(entry.content) if entry.id is None else entry.id)
        return self.markers.get(name, self.chat_variable(name)) == "true"


@dataclass(slots=True)
class EntryState:
    """An entry's state in one pass."""

    order: FrozenJson
    priority: FrozenJson
    scan_depth: float
    full_word: bool
    activated: bool = True
    force: bool | None = None
    pos: str = ""
    depth: float = 0
    role: str = "system"
    inject: LoreInjection | None = None
    recursive: bool | None = None
    no_recursive_search: bool = False
    queries: list[Query] = field(default_factory=list[Query])
    why: str = ""

    def deactivate(self, why: str) -> None:
        """Switch it off, with the first reason kept."""
        if self.activated:
            self.why = why
        self.activated = False

    def change_inject(self, **changes: object) -> None:
        """Edit the injection, making one if there is none."""
        self.inject = replace(self.inject or LoreInjection(), **changes)  # pyright: ignore[reportArgumentType]  # fields of LoreInjection


Handler = Callable[[Decorator, LorebookEntry, EntryState, RunState], bool]
"""Applies a decorator; returns True if it was recognised."""

_HANDLERS: dict[str, Handler] = {}


def apply_decorators(decorators: Sequence[Decorator], entry: LorebookEntry, state: EntryState, run: RunState) -> None:
    """Apply the decorators of an entry in order."""
    unsupported = False
    for decorator in decorators:
        if decorator.fallback and not unsupported:
            continue
        if not decorator.name:
            unsupported = False
            continue
        handler = _HANDLERS.get(decorator.name)
        # A fallback that works clears the flag, so that only the first one of several is used.
        unsupported = handler is None or not handler(decorator, entry, state, run)


def _decorator(*names: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        for name in names:
            _HANDLERS[name] = handler
        return handler

    return register


def _integer(decorator: Decorator) -> float:
    return parse_int(decorator.arguments[0]) if decorator.arguments else math.nan


@_decorator("end")
def _end(decorator: Decorator, entry: LorebookEntry, state: EntryState, run: RunState) -> bool:
    state.pos, state.depth = "depth", 0  # depth 0 is the very end of the prompt
    return True


@_decorator("depth", "reverse_depth")
def _depth(decorator: Decorator, entry: LorebookEntry, state: EntryState, run: RunState) -> bool:
    depth = _integer(decorator)
    if math.isnan(depth):
        return False
    state.pos, state.depth = decorator.name, depth
    return True


@_decorator("position")
def _position(decorator: Decorator, entry: LorebookEntry, state: EntryState, run: RunState) -> bool:
    if not decorator.arguments:
        raise DecoratorParseError("@@position needs a place such as before_desc or pt_name")
    place = decorator.arguments[0]
    if place not in POSITIONS and not place.startswith(POINT_PREFIX):
        return False
    state.pos = place
    return True


@_decorator("role")
def _role(decorator: Decorator, entry: LorebookEntry, state: EntryState, run: RunState) -> bool:
    if not decorator.arguments or decorator.arguments[0] not in ROLES:
        return False
    state.role = decorator.arguments[0]
    return True


@_decorator("scan_depth")
def _scan_depth(decorator: Decorator, entry: LorebookEntry, state: EntryState, run: RunState) -> bool:
    state.scan_depth = _integer(decorator)  # without a number all messages are scanned
    return True


@_decorator("activate", "dont_activate")
def _force(decorator: Decorator, entry: LorebookEntry, state: EntryState, run: RunState) -> bool:
    state.force = decorator.name == "activate"
    state.why = f"@@{decorator.name}"
    return True


@_decorator("activate_only_after")
def _only_after(decorator: Decorator, entry: LorebookEntry, state: EntryState, run: RunState) -> bool:
    after = _integer(decorator)
    if math.isnan(after):
        return False
    if run.chat_length < after:
        state.deactivate(f"@@activate_only_after {after:g}: the chat has {run.chat_length} messages with the greeting")
    return True


@_decorator("activate_only_every")
def _only_every(decorator: Decorator, entry: LorebookEntry, state: EntryState, run: RunState) -> bool:
    every = _integer(decorator)
    if math.isnan(every):
        return False
    if every == 0 or math.fmod(run.chat_length, every) != 0:  # a remainder by 0 is NaN: never
        state.deactivate(f"@@activate_only_every {every:g}: the chat has {run.chat_length} messages with the greeting")
    return True


@_decorator("is_greeting")
def _is_greeting(decorator: Decorator, entry: LorebookEntry, state: EntryState, run: RunState) -> bool:
    wanted = _integer(decorator)
    if math.isnan(wanted):
        return False
    if run.greeting + 1 != wanted:  # 0 is the first message, 1 the first alternate greeting
        state.deactivate(f"@@is_greeting {wanted:g}: the chat began with greeting {run.greeting + 1:g}")
    return True


@_decorator("probability")
def _probability(decorator: Decorator, entry: LorebookEntry, state: EntryState, run: RunState) -> bool:
    chance = _integer(decorator)
    rolled = run.random() * 100  # rolled in every pass, until the entry is active
    if rolled > chance:  # never, without a number
        state.deactivate(f"@@probability {chance:g}: rolled {rolled:.4g}")
    return True


@_decorator("keep_activate_after_match")
def _keep(decorator: Decorator, entry: LorebookEntry, state: EntryState, run: RunState) -> bool:
    if run.marked(KEEP_PREFIX, entry):
        state.force, state.why = True, "it was active before (@@keep_activate_after_match)"
    else:
        run.keep = True
    return False  # RisuAI carries it out but calls it unsupported: a fallback after it runs


@_decorator("dont_activate_after_match")
def _dont(decorator: Decorator, entry: LorebookEntry, state: EntryState, run: RunState) -> bool:
    if run.marked(DONT_PREFIX, entry):
        state.force, state.why = False, "it was active before (@@dont_activate_after_match)"
    else:
        run.dont = True
    return False  # as with `keep_activate_after_match`


@_decorator("additional_keys", "exclude_keys", "exclude_keys_all")
def _keys(decorator: Decorator, entry: LorebookEntry, state: EntryState, run: RunState) -> bool:
    negative = decorator.name != "additional_keys"
    state.queries.append(Query(decorator.arguments, negative, decorator.name == "exclude_keys_all"))
    return True


@_decorator("match_full_word", "match_partial_word")
def _words(decorator: Decorator, entry: LorebookEntry, state: EntryState, run: RunState) -> bool:
    state.full_word = decorator.name == "match_full_word"
    return True


@_decorator("ignore_on_max_context")
def _ignore(decorator: Decorator, entry: LorebookEntry, state: EntryState, run: RunState) -> bool:
    state.priority = LOWEST_PRIORITY
    return True


@_decorator("priority")
def _priority(decorator: Decorator, entry: LorebookEntry, state: EntryState, run: RunState) -> bool:
    state.priority = _integer(decorator)  # may be NaN, which sorting leaves where it is
    return True


_OPERATIONS: Mapping[str, str] = {"inject_replace": "replace", "inject_prepend": "prepend"}


@_decorator("inject_lore", "inject_at", "inject_replace", "inject_prepend")
def _inject(decorator: Decorator, entry: LorebookEntry, state: EntryState, run: RunState) -> bool:
    operation = _OPERATIONS.get(decorator.name)
    if operation is None:
        state.change_inject(location=decorator.joined, lore=decorator.name == "inject_lore")
    else:
        state.change_inject(operation=operation, param=decorator.joined)
    return True


@_decorator("unrecursive", "recursive")
def _recursive(decorator: Decorator, entry: LorebookEntry, state: EntryState, run: RunState) -> bool:
    state.recursive = decorator.name == "recursive"
    return True


@_decorator("no_recursive_search")
def _no_search(decorator: Decorator, entry: LorebookEntry, state: EntryState, run: RunState) -> bool:
    state.no_recursive_search = True
    return True


@_decorator("disable_ui_prompt")
def _disable_prompt(decorator: Decorator, entry: LorebookEntry, state: EntryState, run: RunState) -> bool:
    # RisuAI records it and disables nothing.
    return bool(decorator.arguments) and decorator.arguments[0] in UI_PROMPTS
