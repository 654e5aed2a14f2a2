"""What holds for every input of this room: checks and the inputs they are tried on."""

from __future__ import annotations

import contextlib
import itertools
import json
from typing import Any

from hypothesis import strategies as st

from tavernkit._text import strict_json
from tavernkit.errors import ConfigError
from tavernkit.models import Accumulator, ReplyPiece, ToolCallPiece
from tavernkit.models._anthropic import AnthropicReader
from tavernkit.models._google import GoogleReader
from tavernkit.models._readers import OpenAIReader
from tavernkit.models._streams import ServerEvent, SSEParser
from tavernkit.prompt._block import Block
from tavernkit.stores._variables import InMemoryVariablesStore
from tavernkit.vibe_tavern._directives.envelope import parse_json, validate
from tavernkit.vibe_tavern._directives.patch_ops import DEFAULT_PATH_PREFIXES, normalize_patch_ops
from tavernkit.vibe_tavern._json_schema import check_arguments
from tavernkit.vibe_tavern._liquid_macros.filters import random_values
from tavernkit.vibe_tavern._liquid_macros.render import render_liquid
from tavernkit.vibe_tavern._output_tags import OutputTagsConfig, transform
from tavernkit.vibe_tavern._steps import insertion_index
from tavernkit.vibe_tavern._tool_calling.calls import call_id, check_output, parse_arguments, read_tool_calls
from tavernkit.vibe_tavern._tool_calling.final_stream import OutputTagsStream

texts = st.text(max_size=30)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


def soup(*pieces: str, max_size: int = 14) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(pieces), max_size=max_size)


# JSON


def check_json_round_trip(value: object) -> None:
    try:
        text = strict_json.compact(value)
    except UnicodeEncodeError:
        return
    assert strict_json.loads(text) == json.loads(json.dumps(value))
    assert check_output(value, max_bytes=10**6).estimated_bytes <= 6 * len(text) + 10


# Directives

answers = soup(
    '{"assistant_text":"x","directives":[]}', "{", "}", "[", "]", '"', "a", ":", ",", "1", "```json\n", "```", "<json>",
    "</json>", "<directives>", "</directives>", "\\", "\n", " ", '{"a":1}', "null",
)  # fmt: skip


def check_parser_gives_an_object_or_a_code(pieces: list[str]) -> None:
    text = "".join(pieces)
    for repair in (False, True):
        result = parse_json(text, repair=repair)
        assert result.ok == isinstance(result.value, dict)
        assert result.ok or result.code in ("EMPTY", "TOO_LARGE", "NOT_OBJECT", "INVALID_JSON")
    plain = parse_json(text)
    if plain.ok:
        assert parse_json(text, repair=True).value == plain.value


def check_envelopes_around_prose_are_found(value: object, before: str, after: str) -> None:
    envelope = {"assistant_text": "x", "directives": [{"type": "t", "payload": {"v": value}}]}
    quiet = str.maketrans("", "", '{}<>`"')
    text = f"{before.translate(quiet)} {json.dumps(envelope)} {after.translate(quiet)}"
    assert parse_json(text).value == json.loads(json.dumps(envelope))


envelopes = st.fixed_dictionaries(
    {},
    optional={
        "assistant_text": st.none() | texts,
        "Directives": json_values,
        "directives": st.lists(
            json_values
            | st.fixed_dictionaries(
                {},
                optional={
                    "type": st.none() | texts | st.sampled_from(["ui.toast", "UI toast", "toast"]),
                    "payload": json_values | st.just({}),
                },
            ),
            max_size=4,
        ),
    },
)


def check_validator_gives_clean_directives(envelope: object) -> None:
    result = validate(envelope, allowed_types=["ui.toast"], type_aliases={"toast": "ui.toast"})
    if not result.ok:
        assert result.code in ("MISSING_ASSISTANT_TEXT", "MISSING_DIRECTIVES")
        return
    value: Any = result.value
    assert isinstance(value["assistant_text"], str)
    for directive in value["directives"]:
        assert directive["type"] == "ui.toast"
        assert isinstance(directive["payload"], dict)


patches = st.lists(
    json_values
    | st.fixed_dictionaries(
        {},
        optional={
            "op": st.none() | texts | st.sampled_from(["set", "ADD", "rm", "insert", "push"]),
            "path": st.none() | texts | st.sampled_from(["/draft/a", "ui_state/b", "`c`", "/facts/x"]),
            "value": json_values,
            "index": json_values,
        },
    ),
    max_size=4,
)


def check_patches_stay_below_their_prefixes(ops: object) -> None:
    result = normalize_patch_ops(ops)
    if result.ok:
        assert result.ops
        for op in result.ops:
            assert op["op"] in ("set", "delete", "append", "insert")
            assert str(op["path"]).startswith(DEFAULT_PATH_PREFIXES)
        assert normalize_patch_ops(list(result.ops)).ops == list(result.ops)


# Output tags

tag_pieces = soup(
    "a", " ", "\n", "<think>", "</think>", "<b>", "</b>", "<b/>", "<i k=v>", "</i>", "<em>", "</em>", "<", ">", "`",
    "```", "{{", "}}", "{%", "%}", "\\<", "\\", "{", '<lang code="ja">', "</lang>", "<lang>", "é", "\0",
)  # fmt: skip
TAGS = OutputTagsConfig.from_mapping(
    {
        "enabled": True,
        "rules": [
            {"tag": "think", "action": "drop"},
            {"tag": "b", "action": "strip"},
            {"tag": "i", "action": "rename", "to": "em"},
        ],
        "sanitizers": {"lang_spans": {"enabled": True}},
    }
)


def check_stream_equals_whole(pieces: list[str]) -> None:
    stream = OutputTagsStream(TAGS)
    streamed = "".join(stream.feed(piece) for piece in pieces) + stream.finish()
    assert streamed == transform("".join(pieces), TAGS).text


def check_plain_text_is_untouched(text: str) -> None:
    plain = text.translate(str.maketrans("", "", "<\\"))
    assert transform(plain, TAGS).text == plain


# Liquid

templates = soup(
    "{{", "}}", "{%", "%}", " var.a ", " if ", " endif ", " setvar a = 1 ", " for i in (1..3) ", " endfor ", "|",
    " upcase ", " pick ", " rollp ", " hash7 ", " date: '%Y' ", " datetimeformat: 'YYYY' ", "'x'", "\\{", "\n", " ",
    "text", " incvar n ", " raw ", " endraw ", "a.b", " assign x = 1 ", " divided_by: 0 ", " case ", " liquid ",
)  # fmt: skip


def check_templates_never_raise(pieces: list[str]) -> None:
    assert isinstance(render_liquid("".join(pieces), variables=InMemoryVariablesStore()), str)


careless = st.lists(
    st.text(max_size=3)
    | st.sampled_from(
        [
            *("a", "list", ".", "[", "]", "0", "1.5", "'s'", '"', "|", ":", ",", " ", "(", "..", ")", "-", "==", "<"),
            *("upcase", "append", "true", "nil", "empty", "if", "or", "not", "in", "limit", "first", "size", "?", "!"),
        ]
    ),
    max_size=8,
)


def check_careless_outputs_are_rendered(pieces: list[str]) -> None:
    written = "".join(pieces).translate(str.maketrans("", "", "{}%\0"))
    warnings: list[str] = []
    for template in (f"{{{{ {written} }}}}", f"{{{{ a | {written} }}}}", f"{{% assign b = {written} %}}"):
        render_liquid(template, assigns={"a": "x", "list": [1, 2]}, warn=warnings.append)
    assert not [warning for warning in warnings if "was left as it is" in warning]


def check_text_without_syntax_is_itself(text: str) -> None:
    plain = text.translate(str.maketrans("", "", "{}\\ \t"))
    assert render_liquid(plain) == plain


def check_random_values(word: str, counter: int) -> None:
    (value,) = random_values((counter,), word)
    assert 0 <= value < 1
    assert [value, value] == random_values((counter + 1000, counter), word)


# Tools


def check_arguments_are_an_object_or_refused(value: object) -> None:
    for given in (value, json.dumps(value), json.dumps(json.dumps(value)), f"```json\n{json.dumps(value)}\n```"):
        parsed = parse_arguments(given, max_bytes=100_000)
        assert parsed.status in ("ok", "invalid_json")
        if isinstance(value, dict):
            assert parsed.value == json.loads(json.dumps(value))


calls = st.lists(
    json_values
    | st.fixed_dictionaries(
        {}, optional={"id": st.none() | st.sampled_from(["a", " a ", "a__2", ""]) | texts, "function": json_values}
    ),
    max_size=6,
)


def check_call_ids_are_unique(value: Any) -> None:
    read = read_tool_calls(value)
    identities = [call_id(call) for call in read]
    assert len(set(identities)) == len(identities)
    assert all(identities)
    assert read_tool_calls([*read]) == read


schemas = st.recursive(
    json_values,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "string", "integer", "nope"]) | json_values,
            "properties": st.dictionaries(texts, inner, max_size=3) | json_values,
            "items": inner,
            "required": st.lists(texts, max_size=2) | json_values,
            "anyOf": st.lists(inner, max_size=3),
            "enum": st.lists(json_values, max_size=3),
            "$ref": st.sampled_from(["#/properties/a", "#/items", "#"]),
        },
    ),
    max_leaves=8,
)


def check_any_schema_can_be_asked(value: object, schema: Any) -> None:
    if isinstance(schema, dict):
        problem = check_arguments(value, schema)
        assert problem is None or problem


# Language policy

roles = st.lists(st.sampled_from("SUACT"), max_size=10)
_ROLES = {"S": "system", "U": "user", "A": "assistant", "C": "assistant", "T": "tool"}


def check_policy_never_follows_tool_calls(letters: list[str]) -> None:
    blocks = [
        Block(role=_ROLES[letter], content="x", message_metadata={"tool_calls": [{}]} if letter == "C" else None)
        for letter in letters
    ]
    index = insertion_index(blocks)
    between_call_and_result = letters[index - 1 : index] == ["C"] and letters[index : index + 1] == ["T"]
    assert not between_call_and_result


# Server-sent events

event_lines = soup(
    "data: a\n", "data: é\r\n", "\n", "\r\n", "\r", ": c\n", "event: x\n", "data:b", "日", "data", max_size=10
)


def read_events(*portions: bytes) -> list[ServerEvent]:
    parser = SSEParser()
    found = [event for portion in portions for event in parser.feed(portion)]
    return found + parser.finish()


def check_portions_do_not_matter(lines: list[str], cuts: list[int]) -> None:
    data = "".join(lines).encode()
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    portions = [data[start:end] for start, end in itertools.pairwise(edges)]
    assert read_events(*portions) == read_events(data)


# Configuration


def check_sections_are_read_or_refused(section: Any) -> None:
    from tavernkit.vibe_tavern._runner_config import RunnerConfig

    for name in ("tool_calling", "directives", "language_policy", "output_tags"):
        with contextlib.suppress(ConfigError):
            RunnerConfig.build(provider="openrouter", model="m", context={name: section})


# Tool calls in pieces


def check_split_calls_are_put_together(arguments: list[str], cuts: list[int]) -> None:
    """However the arguments of calls are cut, and however the pieces of several calls are mixed, they come whole."""
    pieces: list[list[ToolCallPiece]] = []
    for index, text in enumerate(arguments):
        edges = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
        parts = [text[start:end] for start, end in itertools.pairwise(edges)]
        begun = ToolCallPiece(index=index, id=f"c{index}", name=f"tool{index}")
        pieces.append([begun, *(ToolCallPiece(index=index, arguments=part) for part in parts)])
    collected = Accumulator()
    for mixed in itertools.zip_longest(*pieces):
        for piece in mixed:
            if piece is not None:
                collected.add(ReplyPiece(tool_calls=(piece,)))
    found = [(call.id, (call.name, call.arguments)) for call in collected.reply().tool_calls]
    assert found == [(f"c{index}", (f"tool{index}", text or "{}")) for index, text in enumerate(arguments)]


def check_any_calls_can_be_read(value: Any) -> None:
    """Whatever a server sends as calls, what comes of it has text where text is expected."""
    collected = Accumulator()
    collected.add(OpenAIReader().read({"choices": [{"delta": {"tool_calls": value}}]}))
    for call in collected.reply().tool_calls:
        assert all(isinstance(each, str) for each in (call.id, call.name, call.arguments))


_junk = st.sampled_from([None, True, 1.5, 7, "x", [], ["x"], {}, {"x": 1}])
_text, _number = texts | _junk, st.integers(0, 3) | st.booleans() | _junk


def _some(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object with these members; sometimes something else, but rarely, as nothing inside is tried then."""
    whole = st.fixed_dictionaries(members)
    return st.one_of(whole, whole, whole, whole, _junk)


def _listed(item: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(item, min_size=1, max_size=2)


_delta = _some(
    content=_text,
    reasoning=_text,
    refusal=_text,
    tool_calls=_listed(_some(index=_number, id=_text, function=_some(name=_text, arguments=_text))),
)
openai_events = st.fixed_dictionaries(
    {"choices": _listed(_some(delta=_delta, finish_reason=_text, logprobs=_junk)), "usage": _junk}
)
anthropic_events = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["message_start", "content_block_start", "content_block_delta", "message_delta"]),
        "index": _number,
        "content_block": _some(type=st.just("tool_use"), id=_text, name=_text, input=_junk),
        "delta": _some(text=_text, thinking=_text, partial_json=_text, stop_reason=_text),
        "usage": _some(input_tokens=_number, output_tokens=_number),
    }
)
_parts = _listed(_some(text=_text, thought=_junk, functionCall=_some(name=_text, args=_junk)))
google_events = st.fixed_dictionaries(
    {
        "candidates": _listed(_some(finishReason=_text, content=_some(parts=_parts))),
        "promptFeedback": _some(blockReason=_text),
        "usageMetadata": _some(promptTokenCount=_number),
    }
)


def check_whatever_a_server_streams_becomes_chunks(openai: Any, anthropic: list[Any], google: Any) -> None:
    """What is of a wrong kind in an answer is the server's mistake, and nothing that a programmer could mend."""
    reader = AnthropicReader()
    read = [OpenAIReader().read(openai), GoogleReader().read(google)]
    for piece in [*read, *(reader.read(event) for event in anthropic)]:
        assert isinstance(piece.text, str)
