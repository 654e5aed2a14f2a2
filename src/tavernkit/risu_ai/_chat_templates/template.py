"""A chat template: compiled once, rendered for many chats."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tavernkit._values import LRUCache
from tavernkit._workers import Job, JobFailedError, OutOfTimeError, StuckError, WorkerError, note_degraded
from tavernkit.errors import Warn, log_warning
from tavernkit.prompt._message import Message
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._chat_templates.rendering import CompiledTemplate, Rendering, TemplateProblem
from tavernkit.risu_ai._limits import CACHED_TEMPLATES, MAX_TEMPLATE_CHARACTERS, MAX_TEMPLATE_SECONDS, TEMPLATE_GRACE
from tavernkit.risu_ai.errors import ChatTemplateError

ROLES = ("system", "user", "assistant")
"""The roles that a template gets; other messages are left out."""

JOB = Job(Path(__file__).with_name("worker.py"))
"""The job of worker processes for chat templates."""


class ChatTemplate:
    """A Jinja chat template.

    Templates that use what RisuAI's Jinja library lacks (``~``, ``//``, macros, most filters) are rendered with a
    warning; in strict mode they raise, as RisuAI would, and so does any use of a name without a value. A
    template that is wrong, or that refuses the messages with ``raise_exception``, always raises ``ChatTemplateError``,
    because there is no text to return. Compiling and rendering happen in a worker process with its own limits.
    """

    def __init__(self, text: str) -> None:
        if len(text) > MAX_TEMPLATE_CHARACTERS:
            raise ChatTemplateError(f"the template has {len(text)} characters, more than {MAX_TEMPLATE_CHARACTERS}")
        self.text = text
        self.unsupported: tuple[str, ...] = tuple(_request(text)["unsupported"])

    @classmethod
    def compiled(cls, text: str) -> ChatTemplate:
        """Return the template of a text, cached."""
        return _compiled().get_or_make(text, lambda: cls(text))

    def render(
        self,
        messages: Sequence[PromptMessage | Message],
        *,
        character_name: str = "",
        user_name: str = "",
        add_generation_prompt: bool = True,
        warn: Warn = log_warning,
        strict: bool = False,
    ) -> str:
        """Write the prompt. Messages show their role and content only.

        Args:
            messages: The messages of the prompt.
            character_name: The character's name.
            user_name: The user's name.
            add_generation_prompt: End with the beginning of the model's reply.
            warn: Called with each warning.
            strict: Raise an error instead of warning.

        Raises:
            ChatTemplateError: The template cannot be rendered, or needs what RisuAI does not have (in strict mode).
        """
        for feature in self.unsupported:
            problem = f"the chat template uses {feature}, which RisuAI's Jinja library does not have"
            if strict:
                raise ChatTemplateError(problem)
            warn(problem)
        given = Rendering(
            messages=[{"role": each.role, "content": each.content} for each in messages if each.role in ROLES],
            character_name=character_name,
            user_name=user_name,
            add_generation_prompt=add_generation_prompt,
            strict=strict,
        )
        return self._rendered(given)

    def _rendered(self, given: Rendering) -> str:
        return _request(self.text, rendering=dataclasses.asdict(given), seconds=MAX_TEMPLATE_SECONDS)["prompt"]


class OwnTemplate(ChatTemplate):
    """A template of this library, which needs no worker process."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._template = CompiledTemplate(text)
        self.unsupported = ()

    def _rendered(self, given: Rendering) -> str:
        try:
            return self._template.render(given, MAX_TEMPLATE_SECONDS)
        except TemplateProblem as problem:
            raise ChatTemplateError(str(problem)) from problem


def _request(text: str, **more: object) -> dict[str, Any]:
    """Let a worker process compile a template, and perhaps render it."""
    from tavernkit._workers.pool import pool

    try:
        seconds = MAX_TEMPLATE_SECONDS * TEMPLATE_GRACE
        reply: dict[str, Any] = json.loads(pool.run(JOB, json.dumps({"text": text, **more}).encode(), seconds))
    except OutOfTimeError:
        raise ChatTemplateError(f"the chat template takes longer than {MAX_TEMPLATE_SECONDS:g} seconds") from None
    except StuckError as error:
        note_degraded(f"a chat template {error}")
        raise ChatTemplateError(f"the chat template was stopped because the machine is too busy ({error})") from None
    except JobFailedError as error:
        raise ChatTemplateError(f"the chat template failed: {error}") from None
    except WorkerError as error:
        raise ChatTemplateError(f"the chat template could not be run safely: {error}") from None
    if "problem" in reply:
        raise ChatTemplateError(reply["problem"])
    return reply


@cache
def _compiled() -> LRUCache[str, ChatTemplate]:
    return LRUCache(CACHED_TEMPLATES)
