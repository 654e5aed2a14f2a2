"""A chat over many turns: what the recorded conversations do not show."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st_

from tavernkit import ConfigError, MaxTokensExceededError
from tavernkit import silly_tavern as st
from tavernkit._turns import OnPiece, ToolOutcome, Turn
from tavernkit.cards import Character, User
from tavernkit.models import ModelError, Reply, ReplyPiece, ToolCall
from tavernkit.prompt._plan import Plan
from tavernkit.silly_tavern._conversation.json_errors import json_error

CARD = Character(name="Aria", first_mes="Hello, {{user}}.", alternate_greetings=("Hi!", "Oh."), description="Turn.")


class Host:
    """Answers with texts in order, remembers what was saved and when."""

    def __init__(self, *replies: Reply | BaseException | Sequence[str | BaseException]) -> None:
        self.replies = list(replies)
        self.log: list[str] = []
        self.calls: list[ToolCall] = []
        self.chat: st.Chat | None = None

    async def ask(self, plan: Plan, *, on_piece: OnPiece | None = None) -> Reply:
        del plan
        self.log.append("ask")
        reply = self.replies.pop(0) if self.replies else Reply(text=f"Reply {self.log.count('ask')}.")
        if isinstance(reply, BaseException):
            raise reply
        if isinstance(reply, Reply):
            return reply
        text = ""
        for piece in reply:
            if isinstance(piece, BaseException):
                raise piece
            text += piece
            if on_piece is not None:
                on_piece(ReplyPiece(text=piece))
        return Reply(text=text)

    async def checkpoint(self) -> None:
        assert self.chat is not None
        self.log.append(f"save {len(self.chat.lines)}")

    async def call_tool(self, call: ToolCall) -> ToolOutcome:
        self.calls.append(call)
        return ToolOutcome(result="Rain.")


def chat(*replies: Reply | BaseException | Sequence[str | BaseException], **inputs: Any) -> tuple[st.Chat, Host]:
    host = Host(*replies)
    made = st.Chat(host, character=CARD, user=User(name="Ann"), warn=None, seed=1, **inputs)
    host.chat = made
    made.open()
    return made, host


def texts(made: st.Chat) -> list[object]:
    return [line["mes"] for line in made.lines]


async def test_the_users_message_is_saved_before_the_model_is_asked() -> None:
    made, host = chat(Reply(text="Fine."))
    turn = await made.send("How are you?")
    assert host.log[:2] == ["save 2", "ask"]
    assert texts(made) == ["Hello, Ann.", "How are you?", "Fine."]
    assert turn.text == "Fine."
    assert turn.plan is not None
    assert turn.reply == Reply(text="Fine.")


async def test_what_has_arrived_of_a_broken_stream_is_kept() -> None:
    made, host = chat(["Once ", "upon", ModelError("gone")])
    with pytest.raises(ModelError, match="gone"):
        await made.send("Tell me.")
    assert texts(made)[-1] == "Once upon"
    assert (made.lines[-1]["extra"] or {}).get("tavernkit") == {"partial": "gone"}  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # JSON
    assert host.log[-1] == "save 3"
    await made.continue_reply()
    assert texts(made)[-1] == "Once upon Reply 2."
    assert "tavernkit" not in str(made.lines[-1]["extra"])


@pytest.mark.parametrize("number", [-5, 99, None, True, "1", 1.5])
async def test_a_number_of_a_swipe_that_there_is_not_breaks_nothing(number: object) -> None:
    reply = st.ChatMessage.from_json({"name": "Aria", "mes": "One.", "swipes": ["One.", "Two."], "swipe_id": number})
    host = Host()
    lines = st.ChatFile().with_messages(st.ChatMessage.from_json({"is_user": True, "mes": "Hi"}), reply)
    made = host.chat = st.Chat(host, chat=lines, character=CARD)
    made.open()
    await made.swipe("left")
    assert texts(made)[1] in ("One.", "Two.")
    await made.new_swipe()
    assert texts(made)[1] == "Reply 1."


async def test_a_failed_swipe_shows_the_one_before() -> None:
    made, _ = chat(Reply(text="One."), ModelError("down"))
    await made.send("Hi")
    before = copy.deepcopy(made.lines[-1])
    with pytest.raises(ModelError):
        await made.swipe()
    assert made.lines[-1] == before


async def test_cancelling_keeps_the_partial_reply() -> None:
    made, _ = chat(["Once", asyncio.CancelledError()])
    with pytest.raises(asyncio.CancelledError):
        await made.send("Go")
    assert texts(made)[-1] == "Once"


async def test_what_the_user_says_is_kept_when_no_prompt_can_be_built() -> None:
    made, host = chat(context_length=40, response_length=20)
    with pytest.raises(MaxTokensExceededError):
        await made.send("Hello, {{char}}!")
    assert texts(made)[-1] == "Hello, Aria!"
    assert host.log == ["save 2"]


async def test_tools_are_run_until_the_limit() -> None:
    call = ToolCall(id="1", name="weather", arguments="{}")
    calling = Reply(tool_calls=(call,))
    preset = st.Preset.default().replace(function_calling=True, tool_call_recurse_limit=2)
    made, host = chat(calling, calling, calling, preset=preset, tools=[{"name": "weather"}])
    await made.send("Weather?")
    assert host.log.count("ask") == 3
    assert [each.name for each in host.calls] == ["weather"] * 3


async def test_a_stealth_tool_leaves_no_line_beside_other_calls_and_ends_the_turn() -> None:
    called = (ToolCall(id="1", name="light", arguments="{}"), ToolCall(id="2", name="weather", arguments="{}"))
    preset = st.Preset.default().replace(function_calling=True)
    tools = [{"name": "weather"}, {"name": "light", "stealth": True}]
    made, host = chat(Reply(tool_calls=called), preset=preset, tools=tools)
    await made.send("Weather?")
    assert [each.name for each in host.calls] == ["light", "weather"]
    line: Any = made.lines[-1]
    assert [each["name"] for each in line["extra"]["tool_invocations"]] == ["weather"]
    assert host.log.count("ask") == 1


async def test_scripts_for_reasoning_run_on_a_block_that_is_taken_out_of_the_text() -> None:
    script = {"scriptName": "s", "findRegex": "/lamp/g", "replaceString": "{{char}}", "placement": [6]}
    settings = st.Settings.from_json({"power_user": {"reasoning": {"auto_parse": True}}})
    scripts = st.RegexScripts(global_=(st.RegexScript.from_json(script),))
    made, _ = chat(Reply(text="<think>A lamp.</think>The lamp is lit."), settings=settings, regex_scripts=scripts)
    await made.send("Hello.")
    line: Any = made.lines[-1]
    assert (line["mes"], line["extra"]["reasoning"]) == ("The lamp is lit.", "A Aria.")
    made.edit(0, "<think>lamp</think>Hi.")
    line = made.lines[0]
    assert (line["mes"], line["extra"]["reasoning"]) == ("Hi.", "Aria")


async def test_trim_strings_see_the_speaker_of_an_edited_line_but_no_narrator() -> None:
    script = {"scriptName": "s", "findRegex": "/<(.*)>/", "replaceString": "$1", "trimStrings": ["{{char}}"]}
    edited = st.RegexScript.from_json({**script, "placement": [2, 3], "runOnEdit": True})
    made, _ = chat(regex_scripts=st.RegexScripts(global_=(edited,)))
    await made.run_command("/sendas name=Bob Hi.")
    await made.run_command("/sys name=Bob Night falls.")
    for place in (1, 2):
        made.edit(place, "<Aria and Bob>")
    assert texts(made)[1:] == ["Aria and", "and Bob"]


@pytest.mark.parametrize("command", ["/cut {}", "/hide 0-{}", "/del {}", "/inject id=a depth={} Rain."])
async def test_numbers_of_commands_may_have_any_number_of_digits(command: str) -> None:
    made, _ = chat()
    await made.send("Hello.")
    await made.run_command(command.format("9" * 5000))
    assert len(made.lines) == (0 if "del" in command else 3)


async def test_a_call_with_a_number_that_json_lacks_is_not_run() -> None:
    call = ToolCall(id="1", name="weather", arguments='{"day": NaN}')
    preset = st.Preset.default().replace(function_calling=True)
    made, host = chat(Reply(tool_calls=(call,)), preset=preset, tools=[{"name": "weather"}])
    await made.send("Weather?")
    assert host.calls == []
    line: Any = made.lines[-2]
    (invocation,) = line["extra"]["tool_invocations"]
    assert invocation["error"]
    assert invocation["result"].startswith("SyntaxError: Unexpected token 'N'")


async def test_arguments_of_a_call_are_shown_as_javascript_writes_them() -> None:
    call = ToolCall(id="1", name="weather", arguments='{"b": 2.0, "10": 1e3, "9": []}')
    preset = st.Preset.default().replace(function_calling=True)
    made, _ = chat(Reply(tool_calls=(call,)), preset=preset, tools=[{"name": "weather"}])
    await made.send("Weather?")
    shown = '"parameters": {\n      "9": [],\n      "10": 1000,\n      "b": 2\n    }'
    line: Any = made.lines[-2]
    assert shown in line["mes"]


async def test_a_program_may_run_tools_itself() -> None:
    call = ToolCall(id="1", name="weather", arguments="{}")
    preset = st.Preset.default().replace(function_calling=True)
    host = Host(Reply(tool_calls=(call,)))
    made = st.Chat(host, character=CARD, preset=preset, tools=[{"name": "weather"}], run_tools=False)
    host.chat = made
    turn = await made.send("Weather?")
    assert turn.reply is not None
    assert turn.reply.tool_calls == (call,)
    assert host.calls == []


def test_greetings_can_be_chosen_until_something_is_said() -> None:
    made, _ = chat()
    made.choose_greeting(2)
    assert texts(made) == ["Oh."]
    with pytest.raises(ConfigError, match="0 to 2"):
        made.choose_greeting(3)
    asyncio.run(made.send("Hi"))
    with pytest.raises(ConfigError, match="before anything else"):
        made.choose_greeting(0)


def test_a_chat_may_begin_with_another_greeting() -> None:
    host = Host()
    made = st.Chat(host, character=CARD)
    made.open(greeting=1)
    assert texts(made) == ["Hi!"]


def test_inputs_that_a_chat_keeps_itself_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"keeps history, message itself: pass the chat so far"):
        st.Chat(Host(), character=CARD, history=[], message="Hi")


async def test_an_unknown_command_is_reported_and_nothing_is_sent(caplog: pytest.LogCaptureFixture) -> None:
    made, host = chat()
    await made.send("/dance")
    assert host.log == []
    assert "'/dance' is not known" in caplog.text


async def test_a_previewed_message_changes_nothing() -> None:
    made, _ = chat()
    before = made.snapshot()
    plan = made.preview("{{setvar::a::1}}Hi")
    assert plan.messages[-1].content == "Hi"
    assert made.snapshot() == before


async def test_an_empty_message_that_continues_the_last_reply_is_previewed_so() -> None:
    made, _ = chat(settings=st.Settings.from_json({"power_user": {"continue_on_send": True}}))
    await made.send("Hi")
    previewed = made.preview()
    turn = await made.send()
    assert (turn.kind, made.lines[-1]["mes"]) == ("continue", "Reply 1. Reply 2.")
    assert turn.plan is not None
    assert [*previewed.messages] == [*turn.plan.messages]


async def test_a_swipe_can_be_asked_for_whichever_is_shown() -> None:
    made, _ = chat()
    await made.send("Hi")
    await made.swipe()
    await made.swipe("left")
    await made.new_swipe()
    assert made.lines[-1]["swipes"] == ["Reply 1.", "Reply 2.", "Reply 3."]
    assert made.lines[-1]["swipe_id"] == 2


def test_lines_keep_keys_that_nobody_knows() -> None:
    file = st.ChatFile.loads('{"mine":1,"chat_metadata":{"theirs":2}}\n{"name":"Aria","mes":"Hi","ours":{"a":1}}')
    made = st.Chat(Host(), character=CARD, chat=file)
    made.open()
    header, line = (json.loads(each) for each in made.file.dumps().split("\n"))
    assert (header["mine"], header["chat_metadata"]["theirs"], line["ours"]) == (1, 2, {"a": 1})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{bad", "Expected property name or '}' in JSON at position 1 (line 1 column 2)"),
        ('{"a":1,}', "Expected double-quoted property name in JSON at position 7 (line 1 column 8)"),
        ('{"a" 1}', "Expected ':' after property name in JSON at position 5 (line 1 column 6)"),
        ('{"a":1 2}', "Expected ',' or '}' after property value in JSON at position 7 (line 1 column 8)"),
        ("[1 2]", "Expected ',' or ']' after array element in JSON at position 3 (line 1 column 4)"),
        ("{} x", "Unexpected non-whitespace character after JSON at position 3 (line 1 column 4)"),
        ("nope", "Unexpected token 'o', \"nope\" is not valid JSON"),
        ("", "Unexpected end of JSON input"),
        ('"open', "Unterminated string in JSON at position 5 (line 1 column 6)"),
        ("{", "Expected property name or '}' in JSON at position 1 (line 1 column 2)"),
        ("[", "Unexpected end of JSON input"),
        ('{"a"', "Expected ':' after property name in JSON at position 4 (line 1 column 5)"),
        ('{"a":1,"b"', "Unexpected end of JSON input"),
        ('{"a":1,"b" 2}', "Unexpected number in JSON at position 11 (line 1 column 12)"),
        ('{"a":1,"b" "c"}', "Unexpected string in JSON at position 11 (line 1 column 12)"),
        ('{"a":NaN}', 'Unexpected token \'N\', "{"a":NaN}" is not valid JSON'),
        ("NaN", '"NaN" is not valid JSON'),
        ("[-Infinity]", "No number after minus sign in JSON at position 2 (line 1 column 3)"),
        ("[01]", "Unexpected number in JSON at position 2 (line 1 column 3)"),
        ("[1.]", "Unterminated fractional number in JSON at position 3 (line 1 column 4)"),
        ("[1e+]", "Exponent part is missing a number in JSON at position 4 (line 1 column 5)"),
        ("[tru]", "Unexpected token ']', \"[tru]\" is not valid JSON"),
        ('["a\nb"]', "Bad control character in string literal in JSON at position 3 (line 1 column 4)"),
        ('["\\x"]', "Bad escaped character in JSON at position 3 (line 1 column 4)"),
        ('["\\u12"]', "Bad Unicode escape in JSON at position 6 (line 1 column 7)"),
        ('{"🐉":\n"é🐉', "Unterminated string in JSON at position 11 (line 2 column 5)"),
        (
            '{"long": "text", x, "more": 1}',
            "Expected double-quoted property name in JSON at position 17 (line 1 column 18)",
        ),
        ('{"where": pier, "when": 1}', 'Unexpected token \'p\', ..."{"where": pier, "whe"... is not valid JSON'),
    ],
)
def test_arguments_that_are_not_json_get_the_browsers_message(text: str, message: str) -> None:
    assert json_error(text) == message


@given(st_.text(alphabet='{}[]",:1a\\ \n', max_size=12))
def test_any_text_gets_a_message_or_is_json(text: str) -> None:
    found = json_error(text)
    try:
        json.loads(text)
    except ValueError:
        assert found
    else:
        assert not found


OPERATIONS = st_.lists(
    st_.sampled_from(
        [
            *("send", "swipe", "left", "regenerate", "continue", "impersonate", "quiet"),
            *("edit", "delete", "hide", "unhide", "note", "add", "inject"),
        ]
    ),
    max_size=8,
)


async def operate(made: st.Chat, operation: str) -> Turn | None:
    turns = {
        "send": lambda: made.send("{{incvar::n}} dragon {{pick::a::b}}"),
        "swipe": made.swipe,
        "left": lambda: made.swipe("left"),
        "regenerate": made.regenerate,
        "continue": made.continue_reply,
        "impersonate": made.impersonate,
        "quiet": lambda: made.quiet("Sum up."),
        "inject": lambda: made.run_command("/inject id=once ephemeral=true position=chat Rain."),
    }
    if operation in turns:
        return await turns[operation]()
    changes = {
        "edit": lambda: made.edit(-1, "{{user}} {{random::x::y}}"),
        "delete": lambda: made.delete(-1),
        "hide": lambda: made.hide(0),
        "unhide": lambda: made.unhide(0),
        "note": lambda: made.set_note("{{addvar::m::1}}note", depth=1),
        "add": lambda: made.add_message("More."),
    }
    if made.lines or operation in ("note", "add"):
        changes[operation]()
    return None


BOOK = st.WorldBook.from_json(
    {"entries": {"0": {"uid": 0, "key": ["dragon"], "content": "Smoke.", "sticky": 3, "order": 100, "position": 0}}},
    name="lore",
)


@given(OPERATIONS)
@example(["inject", "send"])
@settings(max_examples=25, deadline=None)
def test_saving_and_loading_between_operations_changes_nothing(operations: list[str]) -> None:
    async def run(*, reload: bool) -> dict[str, object]:
        made, host = chat(books=[BOOK])
        for operation in operations:
            await operate(made, operation)
            if reload:
                saved = json.loads(json.dumps(made.snapshot()))
                made = st.Chat(host, character=CARD, user=User(name="Ann"), warn=None, seed=1, books=[BOOK])
                host.chat = made
                made.restore(saved)
        return {**made.snapshot(), "lines": [_undated(line) for line in made.lines]}

    assert asyncio.run(run(reload=True)) == asyncio.run(run(reload=False))


def _undated(value: object) -> object:
    if isinstance(value, dict):
        return {key: _undated(each) for key, each in value.items() if key != "send_date"}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # JSON
    return [_undated(each) for each in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # JSON


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"position": "top"}, "position must be one of after, chat, before, not 'top'"),
        ({"role": "narrator"}, "role must be one of system, user, assistant, not 'narrator'"),
    ],
)
def test_a_note_has_its_places_and_roles(change: dict[str, Any], named: str) -> None:
    made, _ = chat()
    with pytest.raises(ConfigError, match=named):
        made.set_note("Rain.", **change)


async def test_a_chat_names_what_it_cannot_be_made_of_or_do() -> None:
    with pytest.raises(
        ConfigError, match=r"host must be a Host \(an object with ask, checkpoint, call_tool\), not None"
    ):
        st.Chat(None, character=CARD)  # pyright: ignore[reportArgumentType]  # the mistake
    with pytest.raises(
        ConfigError, match=r"chat must be a ChatFile or None, not str 'a\.jsonl': make one with ChatFile\.load"
    ):
        st.Chat(Host(), character=CARD, chat="a.jsonl")  # pyright: ignore[reportArgumentType]  # the mistake
