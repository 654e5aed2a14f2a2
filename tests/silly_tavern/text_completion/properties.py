"""What holds for every text prompt, whatever is in its chat, card and templates."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tavernkit.silly_tavern import CleanUp, ContextTemplate, InstructTemplate, Settings, SystemPrompt, clean_up
from tests.silly_tavern.chat_properties import texts
from tests.silly_tavern.context_template.properties import templates
from tests.silly_tavern.scene import card
from tests.silly_tavern.text_completion.scene import build

flags = st.booleans()
lines = st.fixed_dictionaries(
    {"name": st.sampled_from(["Lyra", "Mira", "", "Orrin"]), "mes": texts},
    optional={"is_user": flags, "is_system": flags, "force_avatar": flags, "extra": st.just({"type": "narrator"})},
)
instructs = st.builds(
    InstructTemplate,
    enabled=flags,
    wrap=flags,
    macro=flags,
    names_behavior=st.sampled_from(["none", "force", "always"]),
    input_sequence=texts,
    output_sequence=texts,
    output_suffix=texts,
    last_output_sequence=texts,
    story_string_suffix=texts,
    stop_sequence=texts,
    user_alignment_message=texts,
    skip_examples=flags,
)
contexts = st.builds(
    ContextTemplate,
    story_string=templates,
    chat_start=texts,
    example_separator=texts,
    use_stop_strings=flags,
    always_force_name2=flags,
    story_string_position=st.sampled_from([-1, 0, 1, 2]),
)
prompts = st.fixed_dictionaries(
    {
        "key": texts,
        "value": texts,
        "position": st.sampled_from([-1, 0, 1, 2]),
        "depth": st.integers(0, 5),
        "role": st.integers(0, 2),
    }
)


@st.composite
def scenes(draw: Any) -> dict[str, Any]:
    """Inputs of a text build."""
    power_user = {key: draw(flags) for key in ("collapse_newlines", "pin_examples", "strip_examples", "trim_spaces")}
    return {
        "character": card(mes_example=draw(texts), system_prompt=draw(texts), post_history_instructions=draw(texts)),
        "history": draw(st.lists(lines, max_size=6)),
        "message": draw(texts),
        "generation_type": draw(st.sampled_from(["normal", "continue", "impersonate", "swipe", "regenerate", "quiet"])),
        "quiet_prompt": draw(texts),
        "quiet_to_loud": draw(flags),
        "instruct": draw(instructs),
        "context_template": draw(contexts),
        "system_prompt": draw(st.builds(SystemPrompt, enabled=flags, content=texts, post_history=texts)),
        "extension_prompts": draw(st.lists(prompts, max_size=3)),
        "settings": Settings.from_json({"power_user": power_user}),
        "chat_metadata": draw(
            st.fixed_dictionaries({}, optional={"cfg_guidance_scale": st.just(2), "cfg_negative_prompt": texts})
        ),
        "context_length": draw(st.sampled_from([1, 100, 150, 300, 8192])),
        "response_length": 20,
        "strategy": draw(st.sampled_from(["reference", "reference", "group_order", "priority"])),
        "seed": 1,
    }


def check_build(scene: dict[str, Any]) -> None:
    """Every build succeeds, repeats, and knows where each character came from."""
    plan = build(**scene)
    assert plan.rendered is not None
    position = 0
    contents = {block.id: block.content for block in plan.enabled_blocks}
    assert len(contents) == plan.enabled_size
    for span in plan.rendered.spans:
        assert span.start == position
        assert plan.prompt[span.start : span.end] == contents[span.block_id]
        position = span.end
    assert position == len(plan.prompt)
    assert "\r" not in plan.prompt
    assert all(plan.stop_strings)
    assert len(set(plan.stop_strings)) == len(plan.stop_strings)
    assert str(plan.explain())
    assert build(**scene).fingerprint() == plan.fingerprint()


def check_clean_up(text: str, user: str, character: str, instruct: InstructTemplate, impersonate: bool) -> None:
    """A clean-up never fails and never makes a reply longer."""
    options = CleanUp(
        user_name=user,
        character_name=character,
        impersonate=impersonate,
        instruct=instruct,
        trim_sentences=True,
        stop_strings=["\nMira:", "<|endoftext|>"],
        members=["Orrin"],
    )
    assert len(clean_up(text, options)) <= len(text)
