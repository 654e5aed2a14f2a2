"""Lines of a chat file, written and changed as in SillyTavern.

A line is the JSON object of the file: unknown keys are kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit._text import strict_json
from tavernkit._text.js_values import json_stringify
from tavernkit._values import Json, JsonObject, is_list, is_object, thaw_object
from tavernkit.silly_tavern._chat.chat_message import NARRATOR

SYSTEM_AVATAR = "img/five.png"
UNKNOWN_AVATAR = "img/ai4.png"
"""The avatar of a speaker without a card."""
SYSTEM_NAME = "SillyTavern System"
PERSONA_AVATAR = "/thumbnail?type=persona&file={}"
CHARACTER_AVATAR = "/thumbnail?type=avatar&file={}"
PARTIAL = "partial"
"""Our own mark in ``extra.tavernkit``: why a reply is not complete."""


def extra_of(line: JsonObject) -> JsonObject:
    """Return the line's ``extra``, created if missing."""
    extra = line.get("extra")
    if not is_object(extra):
        extra = line["extra"] = {}
    return extra


def text_of(line: JsonObject) -> str:
    """Return the line's text."""
    mes = line.get("mes")
    return mes if isinstance(mes, str) else ""


def speaker_of(line: JsonObject) -> str | None:
    """Return the file name of the member of a group who said the line."""
    avatar = line.get("original_avatar")
    return avatar if isinstance(avatar, str) else None


def is_user(line: JsonObject) -> bool:
    """Return True for a line of the user."""
    return bool(line.get("is_user"))


def is_hidden(line: JsonObject) -> bool:
    """Return True for a line that is not part of prompts."""
    return bool(line.get("is_system"))


def is_narrator(line: JsonObject) -> bool:
    """Return True for a narrator's line."""
    return extra_of(line).get("type") == NARRATOR


def is_tool_line(line: JsonObject) -> bool:
    """Return True for a line with tool calls."""
    return "tool_invocations" in extra_of(line)


def is_small(line: JsonObject) -> bool:
    """Return True for a small system line, which has no swipes."""
    return bool(extra_of(line).get("isSmallSys"))


def can_swipe(line: JsonObject) -> bool:
    """Return True for a line that has, or may get, several swipes."""
    return not is_user(line) and not is_small(line) and extra_of(line).get("swipeable") is not False


def may_hold_bias(line: JsonObject) -> bool:
    """Return True for a line whose text may contain a bias."""
    return is_user(line) or is_hidden(line) or is_narrator(line)


def swipes_of(line: JsonObject) -> list[Json]:
    """Return the list of swipes; empty if the line has none."""
    found = line.get("swipes")
    return found if is_list(found) else []


def infos_of(line: JsonObject) -> list[Json]:
    """Return the list that goes with the swipes, with an entry for each of them."""
    found = line.get("swipe_info")
    infos = found if is_list(found) else []
    line["swipe_info"] = infos
    while len(infos) < len(swipes_of(line)):
        infos.append({"extra": {}})
    return infos


def swipe_id_of(line: JsonObject) -> int:
    """Return the number of the swipe that is shown; 0 if it is no number of a swipe."""
    found = line.get("swipe_id")
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else 0


def show(line: JsonObject) -> None:
    """Add the first swipe to a shown line, if it can have any."""
    if is_user(line) or is_small(line) or swipes_of(line):
        return
    line["swipes"] = [text_of(line)]
    line["swipe_id"] = 0
    line["swipe_info"] = [info_of(line)]


def info_of(line: JsonObject) -> JsonObject:
    """Return a swipe's data besides its text."""
    dates = {key: line[key] for key in ("send_date", "gen_started", "gen_finished") if key in line}
    return {**dates, "extra": thaw_object(extra_of(line))}


def leave_swipe(line: JsonObject) -> None:
    """Copy the shown text into its swipe."""
    swipes, at = swipes_of(line), swipe_id_of(line)
    if at < len(swipes):
        swipes[at] = text_of(line)
        infos_of(line)[at] = info_of(line)


def arrive_at_swipe(line: JsonObject, at: int) -> None:
    """Show a swipe: its text and its whole ``extra`` replace the current ones, even what belongs to the line."""
    line["swipe_id"] = at
    line["mes"] = swipes_of(line)[at]
    info = infos_of(line)[at]
    if is_object(info):
        extra = info.get("extra")
        line["extra"] = thaw_object(extra) if is_object(extra) else {}
        line.update((key, info[key]) for key in ("send_date", "gen_started", "gen_finished") if key in info)


def last_round(lines: Sequence[JsonObject]) -> int:
    """Return the number of a group's last round according to the lines; 0 if there was none."""
    for line in reversed(lines):
        extra = line.get("extra")
        number = extra.get("gen_id") if is_object(extra) else None
        if isinstance(number, int):
            return number
    return 0


def delete_swipe(line: JsonObject, at: int) -> bool:
    """Delete a swipe; the only one stays. Returns True if it was deleted."""
    swipes, shown = swipes_of(line), swipe_id_of(line)
    if len(swipes) < 2 or not 0 <= at < len(swipes):
        return False
    infos = infos_of(line)
    if shown != at:
        leave_swipe(line)
    del swipes[at], infos[at]
    if at < shown:
        line["swipe_id"] = shown - 1
    elif at == shown:
        arrive_at_swipe(line, min(at, len(swipes) - 1))
    return True


def greeting_line(name: str, texts: Sequence[str], date: str) -> JsonObject:
    """Make the line of a character's greetings; an empty first message is dropped if there are others."""
    shown = list(texts) if (texts and texts[0]) or len(texts) < 2 else list(texts[1:])
    line: JsonObject = {
        "name": name,
        "is_user": False,
        "is_system": False,
        "send_date": date,
        "mes": shown[0],
        "extra": {},
    }
    if len(shown) > 1:
        line["swipe_id"] = 0
        line["swipes"] = [*shown]
        line["swipe_info"] = [{"send_date": date, "extra": {}} for _ in shown]
    return line


def user_line(name: str, text: str, date: str, *, bias: str = "", avatar: str | None = None) -> JsonObject:
    """Make a line of the user; ``avatar`` is the file of the persona in use, if it is one."""
    extra: JsonObject = {"isSmallSys": False}
    if bias:
        extra["bias"] = bias
    line: JsonObject = {
        "name": name,
        "is_user": True,
        "is_system": False,
        "send_date": date,
        "mes": text,
        "extra": extra,
    }
    if avatar:
        line["force_avatar"] = PERSONA_AVATAR.format(avatar)
    return line


def bias_line(bias: str, date: str) -> JsonObject:
    """Make the hidden line of a text that is only a bias."""
    return {
        "name": SYSTEM_NAME,
        "force_avatar": SYSTEM_AVATAR,
        "is_user": False,
        "is_system": True,
        "send_date": date,
        "mes": " ",
        "extra": {"swipeable": False, "bias": bias, "type": "generic"},
    }


def tool_line(invocations: list[JsonObject], date: str, *, api: str, model: str) -> JsonObject:
    """Make the hidden line with the tool calls of a reply."""
    shown = [
        {**each, "parameters": _parsed(each["parameters"]), "result": _parsed(each["result"])} for each in invocations
    ]
    counts: dict[str, int] = {}
    for each in invocations:
        title = str(each["displayName"])
        counts[title] = counts.get(title, 0) + 1
    titles = ", ".join(name if count == 1 else f"{name} ({count})" for name, count in counts.items())
    block = json_stringify(shown, 2)
    return {
        "name": SYSTEM_NAME,
        "force_avatar": SYSTEM_AVATAR,
        "is_system": True,
        "is_user": False,
        "send_date": date,
        "mes": (
            f"<details><summary>Tool calls: {titles}</summary>"
            f'<pre><code class="language-json">{block}</code></pre></details>'
        ),
        "extra": {"isSmallSys": True, "tool_invocations": [*invocations], "api": api, "model": model},
    }


def _parsed(value: Json) -> Json:
    """Return the value of a JSON text, or the text itself."""
    if not isinstance(value, str):
        return value
    try:
        return strict_json.loads(value)
    except (ValueError, RecursionError):
        return value


def mark_partial(line: JsonObject, reason: str) -> None:
    """Mark a line's reply as incomplete, with the reason; an empty reason removes the mark."""
    extra = extra_of(line)
    own = extra.get("tavernkit")
    if reason:
        extra["tavernkit"] = {**(own if is_object(own) else {}), PARTIAL: reason}
    elif is_object(own):
        own.pop(PARTIAL, None)
        if not own:
            del extra["tavernkit"]
