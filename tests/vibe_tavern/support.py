"""What the tests of this room share."""

from __future__ import annotations

from typing import Any

from tavernkit.models._scripted import Script
from tavernkit.testing import ScriptedModel
from tavernkit.vibe_tavern._prompt_runner import PromptRunner
from tavernkit.vibe_tavern._runner_config import RunnerConfig


def loose(value: object) -> Any:
    """The same value, for tests that look deep into JSON."""
    return value


def config(provider: str = "openai", model: str = "test-model", **fields: Any) -> RunnerConfig:
    """A configuration that keeps quiet about warnings."""
    context = {"warn": None, **fields.pop("context", {})}
    return RunnerConfig.build(provider=provider, model=model, context=context, **fields)


def scripted(*script: Script) -> tuple[PromptRunner, ScriptedModel]:
    """A runner over a scripted model, and the model."""
    model = ScriptedModel(*script)
    return PromptRunner(model), model


def sent(model: ScriptedModel, position: int = -1) -> Any:
    """A request that a scripted model got."""
    return model.requests[position]
