"""CBS texts through the engine, with RisuAI's own objects as context."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import cycle
from typing import Any
from zoneinfo import ZoneInfo

from tavernkit.risu_ai._cbs import CBSEngine
from tavernkit.risu_ai._cbs.context import CBSContext, RisuDevice
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat, RisuPersona, RisuSettings
from tavernkit.risu_ai.errors import CBSError
from tavernkit.stores._variables import InMemoryVariablesStore
from tests.conformance.runner import Case

ENGINE = CBSEngine()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Dice:
    """Gives the recorded numbers in order, and counts."""

    def __init__(self, numbers: list[float]) -> None:
        self.calls = 0
        self._numbers = cycle(numbers)

    def __call__(self) -> float:
        self.calls += 1
        return next(self._numbers)


def run(case: Case) -> object:
    given = case.input
    selected = given["characters"][given["selected"]] if given["selected"] >= 0 else None
    chat = selected["chats"][selected["chatPage"]] if selected else {}
    state = {name.removeprefix("$"): value for name, value in chat.get("scriptstate", {}).items()}
    variables = InMemoryVariablesStore({"local": state, "global": given["db"].get("globalChatVariables", {})})
    dice = Dice(given["random"])
    context = make_context(given, selected, chat, variables, dice)
    expand = expander(given, context)
    actual: dict[str, object] = {"random_calls": dice.calls}
    if "throws" in case.expected:
        try:
            expand(strict=True)
        except CBSError:
            actual["throws"] = case.expected["throws"]
    else:
        actual["output"] = expand(strict=False)
    actual["random_calls"] = dice.calls
    stored = variables.to_dict().get("local", {})
    # A read of every key that should not be there would be hidden by the comparison, so the whole state is listed.
    actual["scriptstate"] = {f"${name}": value for name, value in stored.items()} if selected else {}
    if set(actual["scriptstate"]) != set(case.expected["scriptstate"]):
        actual["scriptstate"] = sorted(stored)
    return actual


def expander(given: dict[str, Any], context: CBSContext) -> Callable[..., str]:
    def expand(*, strict: bool) -> str:
        return ENGINE.expand(
            given["text"], context, warn=lambda _: None, strict=strict, calls=given["args"].get("callStack", 0)
        )

    return expand


def make_context(
    given: dict[str, Any],
    selected: dict[str, Any] | None,
    chat: dict[str, Any],
    variables: InMemoryVariablesStore,
    dice: Dice,
) -> CBSContext:
    args = given["args"]
    db = {key: value for key, value in given["db"].items() if key not in given.get("unset", ())}
    characters = tuple(RisuCharacter.from_json(each) for each in given["characters"])
    speaker = args.get("chara")
    conditions = args.get("cbsConditions", {})
    moment = EPOCH + timedelta(milliseconds=given["now"])
    return CBSContext(
        char=characters[given["selected"]] if selected else None,
        speaker=characters[speaker["ref"]] if isinstance(speaker, dict) else speaker,
        user=db.get("username"),
        chat=RisuChat.from_json(chat),
        characters=characters,
        personas=tuple(RisuPersona.from_json(each) for each in db.get("personas", ())),
        variables=variables,
        settings=RisuSettings.from_json(db),
        device=RisuDevice(locale=given["locale"], timezone=ZoneInfo(given["timezone"])),
        clock=lambda: moment,
        random=dice,
        chat_index=args.get("chatID", -1),
        writes="remove" if args.get("rmVar") else "run" if args.get("runVar") else "keep",
        display=args.get("visualize", False),
        role=args.get("role"),
        chat_role=conditions.get("chatRole") or "",
        first_message=conditions.get("firstmsg", False),
        token_counting=args.get("tokenizeAccurate", False),
        consistent_names=args.get("consistantChar", False),
        trigger_id=given.get("trigger_id"),
    )
