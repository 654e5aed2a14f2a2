"""Plans are written as JSON with a schema version, and read back."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tavernkit import risu_ai, silly_tavern
from tavernkit.errors import ConfigError, FileFormatError
from tavernkit.prompt import Block, Plan
from tests.risu_ai.building import scene as risu_scene
from tests.silly_tavern import scene


def plans() -> dict[str, Plan]:
    chat = silly_tavern.Builder(**scene.inputs())
    return {
        "chat": chat.build(message="{{setvar::mood::calm}}Hi", greeting=0, context_length=300, response_length=50),
        "text": chat.build(message="Hi", dialect="text", stop_strings=["END"]),
        "risu": risu_ai.Builder(**risu_scene.inputs()).build(message="Hi"),
    }


@pytest.mark.parametrize("kind", ["chat", "text", "risu"])
def test_a_saved_plan_gives_the_same_prompt_and_request(kind: str, tmp_path: Path):
    plan, path = plans()[kind], tmp_path / "plan.json"
    plan.save(path)
    read = Plan.load(path)
    assert read.blocks == plan.blocks
    assert read.to_messages() == plan.to_messages()
    assert read.rendered == plan.rendered
    assert read.variables == plan.variables
    assert read.omissions == plan.omissions
    assert read.request(model="m").options == plan.request(model="m").options
    assert read.request(model="m").prompt == plan.request(model="m").prompt
    assert read.to_dict() == plan.to_dict()
    assert str(read.explain())


def test_half_characters_and_numbers_that_json_lacks_are_saved_too(tmp_path: Path):
    plan = Plan(blocks=[Block(role="user", content="a\ud83dé")], llm_options={"top_p": float("nan")})
    plan.save(tmp_path / "plan.json")
    read = Plan.load(tmp_path / "plan.json")
    assert (read.messages, read.llm_options) == (plan.messages, {"top_p": None})


def test_the_variables_a_build_would_write_are_saved():
    plan = plans()["chat"]
    assert plan.variables
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))).variables == plan.variables


def test_a_plan_says_which_schema_it_has_and_newer_ones_are_refused():
    saved = plans()["chat"].to_dict()
    assert saved["schema_version"] == 1
    with pytest.raises(ConfigError, match="schema version 2"):
        Plan.from_dict({**saved, "schema_version": 2})
    older = {key: value for key, value in saved.items() if key != "schema_version"}
    assert Plan.from_dict(older).to_dict() == saved


@pytest.mark.parametrize("data", [[], {}, {"blocks": [1]}, {"blocks": [{}]}, {"blocks": [], "rendered": {}}])
def test_what_is_not_a_saved_plan_is_refused(data: Any):
    with pytest.raises(ConfigError, match="not a saved plan"):
        Plan.from_dict(data)


def test_a_file_that_is_not_json_is_refused(tmp_path: Path):
    path = tmp_path / "plan.json"
    path.write_text("{")
    with pytest.raises(FileFormatError, match=r"plan\.json is not JSON"):
        Plan.load(path)


def test_keys_of_later_versions_are_left_out():
    saved = plans()["chat"].to_dict()
    saved["blocks"] = [{**block, "shine": 1} for block in saved["blocks"]]  # type: ignore[union-attr, misc]
    assert Plan.from_dict({**saved, "more": 2}).blocks == plans()["chat"].blocks


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["blocks", "rendered", "variables", "omissions", "moved", "sampling", "warnings"]), _json)
def test_damaged_plans_are_read_or_refused_and_never_crash(key: str, value: Any):
    with contextlib.suppress(ConfigError):
        Plan.from_dict({"blocks": [], key: value})


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("blocks", "content", True),
        ("blocks", "message_metadata", [{}]),
        ("blocks", "depth", "1"),
        ("omissions", "kind", 0),
        ("omissions", "name", [{}]),
        ("omissions", "reason", {"a": 1}),
    ],
)
def test_fields_of_a_wrong_type_are_refused(part: str, key: str, value: Any):
    block = {"role": "user", "content": "a"}
    omission = {"kind": "lore", "id": "1", "name": "n", "reason": "r", "tokens": 1}
    saved = {"blocks": [block], "omissions": [omission]}
    Plan.from_dict(saved).explain()
    with pytest.raises(ConfigError, match=key):
        Plan.from_dict({**saved, part: [{**saved[part][0], key: value}]})
