"""A small chat that tests build text prompts of."""

from __future__ import annotations

from typing import Any

from tavernkit.silly_tavern import Builder, ContextTemplate, InstructTemplate, SystemPrompt, TextPlan
from tests.silly_tavern import scene

CHATML = InstructTemplate(
    input_sequence="<u>",
    input_suffix="</s>\n",
    output_sequence="<b>",
    output_suffix="</s>\n",
    system_sequence="<sys>",
    system_suffix="</s>\n",
)
CONTEXT = ContextTemplate(
    story_string="{{#if system}}{{system}}\n{{/if}}{{#if wiBefore}}{{wiBefore}}\n{{/if}}{{description}}\n",
    chat_start="***",
    example_separator="---",
)


def inputs(**changes: Any) -> dict[str, Any]:
    return scene.inputs(
        **{
            "dialect": "text",
            "instruct": CHATML,
            "context_template": CONTEXT,
            "system_prompt": SystemPrompt(content="Be {{char}}."),
            **changes,
        }
    )


def build(**changes: Any) -> TextPlan:
    plan = Builder(**inputs(**changes)).build()
    assert isinstance(plan, TextPlan)
    return plan
