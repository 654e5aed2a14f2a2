"""A chat template: compiled once, rendered for many chats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import CodeType

from jinja2 import Template, nodes
from jinja2.exceptions import TemplateError

from tavernkit.errors import Warn, log_warning
from tavernkit.prompt.message import Message
from tavernkit.risu_ai.chat.prompt_message import PromptMessage
from tavernkit.risu_ai.chat_templates.environment import ChatTemplateEnvironment, Counted, TemplateRefusal, counters
from tavernkit.risu_ai.errors import ChatTemplateError
from tavernkit.risu_ai.limits import CACHED_TEMPLATES, MAX_TEMPLATE_CHARACTERS, MAX_TEMPLATE_DEPTH, MAX_TEMPLATE_OUTPUT
from tavernkit.values import LRUCache

ROLES = ("system", "user", "assistant")
"""The roles a template gets to see; other messages are left out."""

_KNOWN_FILTERS = frozenset(
    {
        *("abs", "capitalize", "first", "items", "last", "length", "list", "lower", "reverse", "selectattr", "sort"),
        *("title", "trim", "upper"),
    }
)
_KNOWN_TESTS = frozenset(
    {
        *("boolean", "callable", "defined", "equalto", "even", "false", "integer", "iterable", "lower", "none"),
        *("number", "odd", "true", "undefined", "upper"),
    }
)
_KNOWN_METHODS = frozenset({"get", "items", "lower", "strip", "title", "upper"})
_UNKNOWN: Mapping[type[nodes.Node], str] = {
    nodes.Concat: "'~'",
    nodes.FloorDiv: "'//'",
    nodes.Pow: "'**'",
    nodes.Macro: "macros",
    nodes.CallBlock: "call blocks",
    nodes.FilterBlock: "filter blocks",
    nodes.AssignBlock: "set blocks",
    nodes.With: "with blocks",
}


class ChatTemplate:
    """A Jinja chat template.

    Templates that use what RisuAI's Jinja library lacks (``~``, ``//``, macros, most filters) are rendered with a
    warning; in strict mode they raise, as RisuAI would, and so does whatever is asked of a name without a value. A
    template that is wrong, or that refuses the messages with ``raise_exception``, raises :class:`ChatTemplateError`
    always: there is no text to give.
    """

    def __init__(self, text: str) -> None:
        if len(text) > MAX_TEMPLATE_CHARACTERS:
            raise ChatTemplateError(f"the template has {len(text)} characters, more than {MAX_TEMPLATE_CHARACTERS}")
        self.text = text
        environment = _environment(strict=False)
        try:
            tree = environment.parse(text)
            if _depth(tree) > MAX_TEMPLATE_DEPTH:
                raise ChatTemplateError(f"the chat template nests blocks more than {MAX_TEMPLATE_DEPTH} deep")
            self.unsupported: tuple[str, ...] = tuple(sorted(_unsupported(tree)))
            code = environment.compile(Counted().visit(tree))
            self._lenient, self._strict = (_loaded(code, strict=strict) for strict in (False, True))
        except (TemplateError, RecursionError, SyntaxError) as error:  # the last for what Python finds too complex
            raise ChatTemplateError(f"the chat template cannot be read: {error}") from error

    @classmethod
    def compiled(cls, text: str) -> ChatTemplate:
        """The template of a text; the ones used last are kept."""
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
            for part in (self._strict if strict else self._lenient).generate(
                messages=shown,
                add_generation_prompt=add_generation_prompt,
                risu_char=character_name,
                risu_user=user_name,
                eos_token="",
                bos_token="",
                **counters(strict=strict),
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
def _environment(*, strict: bool) -> ChatTemplateEnvironment:
    return ChatTemplateEnvironment(strict=strict)


def _loaded(code: CodeType, *, strict: bool) -> Template:
    environment = _environment(strict=strict)
    return Template.from_code(environment, code, environment.make_globals(None))


@cache
def _compiled() -> LRUCache[str, ChatTemplate]:
    return LRUCache(CACHED_TEMPLATES)


def _depth(tree: nodes.Template) -> int:
    """Count how deep statements are nested in statements."""
    deepest, level = 0, [node for node in tree.iter_child_nodes() if isinstance(node, nodes.Stmt)]
    while level:
        deepest += 1
        level = [child for node in level for child in node.iter_child_nodes() if isinstance(child, nodes.Stmt)]
    return deepest


def _unsupported(tree: nodes.Template) -> set[str]:
    filters = {each.name for each in tree.find_all(nodes.Filter)}
    tests = {each.name for each in tree.find_all(nodes.Test)}
    methods = {each.node.attr for each in tree.find_all(nodes.Call) if isinstance(each.node, nodes.Getattr)}
    found = {f"the filter {name!r}" for name in filters - _KNOWN_FILTERS}
    found |= {f"the test {name!r}" for name in tests - _KNOWN_TESTS}
    found |= {f"the method {name!r}" for name in methods - _KNOWN_METHODS}
    found |= {name for kind, name in _UNKNOWN.items() if tree.find(kind) is not None}
    for loop in tree.find_all(nodes.For):
        if loop.test is not None:
            found.add("'if' in a loop's head")
        if loop.else_:
            found.add("'else' of a loop")
    return found
