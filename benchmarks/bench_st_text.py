"""SillyTavern text builds: the shared workload (300 messages, 200 lore entries), a long history, a story string."""

from __future__ import annotations

from typing import Any

from benchmarks.bench_st_build import inputs as chat_inputs
from benchmarks.bench_st_build import long_history
from tavernkit.silly_tavern import Builder, ChatMessage, ContextTemplate, InstructTemplate, TextPlan
from tavernkit.silly_tavern._templates.handlebars.rendering import Template

CHATML = InstructTemplate(
    input_sequence="<|im_start|>user",
    input_suffix="<|im_end|>\n",
    output_sequence="<|im_start|>assistant",
    output_suffix="<|im_end|>\n",
    system_sequence="<|im_start|>system",
    system_suffix="<|im_end|>\n",
    story_string_prefix="<|im_start|>system",
    story_string_suffix="<|im_end|>\n",
    stop_sequence="<|im_end|>",
    names_behavior="always",
)
STORY_STRING = (
    "{{#if system}}{{system}}\n{{/if}}{{#if wiBefore}}{{wiBefore}}\n{{/if}}{{#if description}}{{description}}\n{{/if}}"
    "{{#if personality}}{{char}}'s personality: {{personality}}\n{{/if}}{{#if scenario}}Scenario: {{scenario}}\n"
    "{{/if}}{{#if wiAfter}}{{wiAfter}}\n{{/if}}{{#if persona}}{{persona}}\n{{/if}}{{trim}}"
)


def inputs() -> dict[str, Any]:
    """The workload as a text build."""
    return {
        **chat_inputs(),
        "dialect": "text",
        "instruct": CHATML,
        "context_template": ContextTemplate.from_json({"name": "ChatML", "story_string": STORY_STRING}),
        "context_length": 16_384,
        "response_length": 512,
    }


def test_first_build(benchmark: Any) -> None:
    """A fresh builder: books are compiled, macros and the story string parsed."""
    plan = benchmark.pedantic(
        lambda **given: Builder(**given).build(message="Who keeps the tower?"), setup=lambda: ((), inputs()), rounds=10
    )
    assert isinstance(plan, TextPlan)


def test_next_turn(benchmark: Any) -> None:
    """The same builder, a reply and a message later."""
    _next_turn(benchmark, inputs()["history"])


def test_next_turn_of_a_long_history(benchmark: Any) -> None:
    """5,000 messages, of which some hundreds fit."""
    _next_turn(benchmark, long_history())


def test_story_string(benchmark: Any) -> None:
    """A compiled story string, rendered."""
    parameters = dict.fromkeys(
        ("system", "wiBefore", "description", "personality", "scenario", "char"), "A text. " * 50
    )
    template = Template.compile(STORY_STRING)
    assert benchmark(template.render, parameters, str)


def test_compiling_a_story_string(benchmark: Any) -> None:
    """A story string, parsed: once in the life of a template."""
    from tavernkit.silly_tavern._templates.handlebars.parser import parse

    assert benchmark(parse, STORY_STRING).body


def _next_turn(benchmark: Any, history: list[ChatMessage]) -> None:
    builder = Builder(**inputs())
    state = {"chat": history, "turn": 0}
    builder.build(history=history, message="Good evening.")

    def turn() -> tuple[tuple[()], dict[str, Any]]:
        state["turn"] += 1
        reply = ChatMessage(name="Lyra", mes=f"The {state['turn']}th lantern is lit.")
        return (), {"history": [*state["chat"], reply], "message": f"And the {state['turn']}th door?"}

    def build(**given: Any) -> Any:
        plan = builder.build(**given)
        state["chat"] = plan.chat
        return plan

    plan = benchmark.pedantic(build, setup=turn, rounds=30)
    assert plan.trim_report.fits
