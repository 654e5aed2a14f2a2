"""Chat templates: compiled once, rendered for many chats; and those of well-known model families, by RisuAI's names."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tavernkit._dataclass import dataclass
from tavernkit._values import LRUCache
from tavernkit._workers import Job, JobFailedError, OutOfTimeError, StuckError, WorkerError
from tavernkit.errors import Warn, log_warning, note_degraded
from tavernkit.prompt._block import Message
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


Prepare = Callable[[Sequence[PromptMessage]], list[PromptMessage]]

_ALTERNATES = (
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate, starting with the user') }}{% endif %}"
)
_CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
_LLAMA3 = (
    "{% for m in messages %}{{ '<|begin_of_text|>' if loop.first else '' }}"
    "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + m.content | trim + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)
_LLAMA2 = (
    "{% if messages and messages[0].role == 'system' %}"
    "{% set system = '<<SYS>>\\n' + messages[0].content | trim + '\\n<</SYS>>\\n\\n' %}"
    "{% set turns = messages[1:] %}{% else %}{% set system = '' %}{% set turns = messages %}{% endif %}"
    "{% for m in turns %}" + _ALTERNATES + "{% if m.role == 'user' %}"
    "{{ '<|begin_of_text|>[INST] ' + ((system if loop.first else '') + m.content) | trim + ' [/INST]' }}"
    "{% else %}{{ ' ' + m.content | trim + ' ' }}{% endif %}{% endfor %}"
)
_GEMMA = (
    "{% for m in messages %}" + _ALTERNATES + "{% set role = 'model' if m.role == 'assistant' else m.role %}"
    "{{ '<start_of_turn>' + role + '\\n' + m.content | trim + '<end_of_turn>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"
)
_MISTRAL = (
    "{% for m in messages %}" + _ALTERNATES + "{% if m.role == 'user' %}"
    "{{ ' [INST] ' + m.content + ' [/INST]' }}{% else %}{{ ' ' + m.content + ' ' }}{% endif %}{% endfor %}"
)


def _instructions(default_system: str, user: tuple[str, str], assistant: tuple[str, str], start: str) -> str:
    """A format that begins with the system messages, or with its own text if there are none."""
    return (
        "{% if messages | selectattr('role', 'equalto', 'system') | list | length == 0 %}"
        f"{{{{ {default_system!r} + '\\n\\n' }}}}{{% endif %}}"
        "{% for m in messages %}{% if m.role == 'system' %}{{ m.content + '\\n\\n' }}"
        f"{{% elif m.role == 'user' %}}{{{{ {user[0]!r} + m.content + {user[1]!r} }}}}"
        f"{{% else %}}{{{{ {assistant[0]!r} + m.content + {assistant[1]!r} }}}}{{% endif %}}{{% endfor %}}"
        f"{{% if add_generation_prompt %}}{{{{ {start!r} }}}}{{% endif %}}"
    )


_VICUNA = _instructions(
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, "
    "and polite answers to the user's questions.",
    ("USER: ", "\n"),
    ("ASSISTANT: ", "</s>\n"),
    "ASSISTANT:",
)
_ALPACA = _instructions(
    "Below is an instruction that describes a task. Write a response that appropriately completes the request.",
    ("### Instruction:\n", "\n\n"),
    ("### Response:\n", "\n\n"),
    "### Response:\n",
)


def _as_is(messages: Sequence[PromptMessage]) -> list[PromptMessage]:
    return list(messages)


def _system_as_user(messages: Sequence[PromptMessage]) -> list[PromptMessage]:
    """Convert system messages to user messages."""
    found: list[PromptMessage] = []
    for message in messages:
        if message.role == "system":
            message = message.copy()
            message.role, message.content = "user", f"System: {message.content}"
        found.append(message)
    return found


def _alternating(messages: Sequence[PromptMessage]) -> list[PromptMessage]:
    """Merge messages that would break the order user, assistant, user, … into the one before."""
    found: list[PromptMessage] = []
    for message in _system_as_user(messages):
        if message.role not in {"user", "assistant"}:
            continue
        if not found and message.role == "assistant":
            found.append(PromptMessage(role="user", content=""))
        if len(found) % 2 == (0 if message.role == "user" else 1):
            found.append(message.copy())
        else:
            found[-1].content += f"\n{message.content}"
    return found


@dataclass(frozen=True, slots=True)
class NamedTemplate:
    """A format: a conversion of the messages, and the template that writes them."""

    text: str
    prepare: Prepare = _as_is


NAMED_TEMPLATES: Mapping[str, NamedTemplate] = {
    "llama3": NamedTemplate(_LLAMA3),
    "llama2": NamedTemplate(_LLAMA2),
    "chatml": NamedTemplate(_CHATML),
    "gpt2": NamedTemplate(_CHATML),
    "gemma": NamedTemplate(_GEMMA, _system_as_user),
    "mistral": NamedTemplate(_MISTRAL, _alternating),
    "vicuna": NamedTemplate(_VICUNA),
    "alpaca": NamedTemplate(_ALPACA),
}
"""RisuAI's ``instructChatTemplate`` names; ``jinja`` is the user's own template."""


@cache
def _own(text: str) -> ChatTemplate:
    return OwnTemplate(text)


def apply_named_template(
    name: str,
    messages: Sequence[PromptMessage],
    *,
    jinja: str = "",
    character_name: str = "",
    user_name: str = "",
    warn: Warn = log_warning,
    strict: bool = False,
) -> str:
    """Write a prompt in a named format; ``jinja`` is the template for the name ``jinja``."""
    if name == "jinja":
        named, template = NamedTemplate(jinja), ChatTemplate.compiled(jinja)
    elif name in NAMED_TEMPLATES:
        named = NAMED_TEMPLATES[name]
        template = _own(named.text)
    else:
        raise ChatTemplateError(f"no chat template is called {name!r}; known: jinja, {', '.join(NAMED_TEMPLATES)}")
    return template.render(
        named.prepare(messages), character_name=character_name, user_name=user_name, warn=warn, strict=strict
    )
