"""A chat template: compiled once, rendered for many chats."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from jinja2 import Template, nodes
from jinja2.exceptions import TemplateError

from tavernkit.errors import Warn, log_warning
from tavernkit.risu_ai.chat_templates.environment import ChatTemplateEnvironment, Counted, TemplateRefusal, counters
from tavernkit.risu_ai.errors import ChatTemplateError
from tavernkit.risu_ai.limits import CACHED_TEMPLATES, MAX_TEMPLATE_CHARACTERS, MAX_TEMPLATE_OUTPUT
from tavernkit.risu_ai.prompt_message import PromptMessage
from tavernkit.values import LRUCache

ROLES = ("system", "user", "assistant")
"""The roles a template gets to see; other messages are left out."""

_UNKNOWN_FILTERS = ("default", "tojson")


class ChatTemplate:
    """A Jinja chat template.

    Templates that use what RisuAI's Jinja library lacks (``~``, ``//``, ``default``, ``tojson``) are rendered with a
    warning; in strict mode they raise, as RisuAI would. A template that is wrong, or that refuses the messages with
    ``raise_exception``, raises :class:`ChatTemplateError` always: there is no text to give.
    """

    def __init__(self, text: str) -> None:
        if len(text) > MAX_TEMPLATE_CHARACTERS:
            raise ChatTemplateError(f"the template has {len(text)} characters, more than {MAX_TEMPLATE_CHARACTERS}")
        self.text = text
        environment = _environment()
        try:
            tree = environment.parse(text)
            self.unsupported: tuple[str, ...] = tuple(sorted(_unsupported(tree)))
            code = environment.compile(Counted().visit(tree))
            self._template = Template.from_code(environment, code, environment.make_globals(None))
        except (TemplateError, RecursionError) as error:
            raise ChatTemplateError(f"the chat template cannot be read: {error}") from error

    @classmethod
    def compiled(cls, text: str) -> ChatTemplate:
        """The template of a text; the ones used last are kept."""
        return _compiled().get_or_make(text, lambda: cls(text))

    def render(
        self,
        messages: Sequence[PromptMessage],
        *,
        character_name: str = "",
        user_name: str = "",
        add_generation_prompt: bool = True,
        warn: Warn = log_warning,
        strict: bool = False,
    ) -> str:
        """Write the prompt. Messages show their role and content only."""
        for feature in self.unsupported:
            problem = f"the chat template uses {feature}, which RisuAI's Jinja library does not have"
            if strict:
                raise ChatTemplateError(problem)
            warn(problem)
        shown = [{"role": each.role, "content": each.content} for each in messages if each.role in ROLES]
        parts: list[str] = []
        length = 0
        try:
            for part in self._template.generate(
                messages=shown,
                add_generation_prompt=add_generation_prompt,
                risu_char=character_name,
                risu_user=user_name,
                eos_token="",
                bos_token="",
                **counters(),
            ):
                parts.append(part)
                length += len(part)
                if length > MAX_TEMPLATE_OUTPUT:
                    raise ChatTemplateError(f"the chat template writes more than {MAX_TEMPLATE_OUTPUT} characters")
        except TemplateRefusal as refusal:
            raise ChatTemplateError(f"the chat template refuses the messages: {refusal}") from refusal
        except ChatTemplateError:
            raise
        except Exception as error:  # a template can fail in any way Python can
            raise ChatTemplateError(f"the chat template failed: {error}") from error
        return "".join(parts)


@cache
def _environment() -> ChatTemplateEnvironment:
    return ChatTemplateEnvironment()


@cache
def _compiled() -> LRUCache[str, ChatTemplate]:
    return LRUCache(CACHED_TEMPLATES)


def _unsupported(tree: nodes.Template) -> set[str]:
    found = {f"the filter {each.name!r}" for each in tree.find_all(nodes.Filter) if each.name in _UNKNOWN_FILTERS}
    if tree.find(nodes.Concat) is not None:
        found.add("'~'")
    if tree.find(nodes.FloorDiv) is not None:
        found.add("'//'")
    return found
