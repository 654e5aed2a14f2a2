"""Compiles and renders chat templates, in this process or in a worker."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import CodeType

from jinja2 import Template, nodes
from jinja2.exceptions import TemplateError

from tavernkit._dataclass import dataclass
from tavernkit.risu_ai._chat_templates.environment import ChatTemplateEnvironment, Counted, TemplateRefusal, counters
from tavernkit.risu_ai._limits import MAX_TEMPLATE_DEPTH, MAX_TEMPLATE_OUTPUT

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


class TemplateProblem(Exception):  # noqa: N818  # not an error of ours: the message is what a ChatTemplateError says
    """A template cannot be read, fails, or refuses the messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """The inputs of rendering."""

    messages: list[dict[str, str]]
    add_generation_prompt: bool
    character_name: str
    user_name: str
    strict: bool


class CompiledTemplate:
    """A compiled template; ``unsupported`` is what RisuAI's library does not support."""

    def __init__(self, text: str) -> None:
        environment = _environment(strict=False)
        try:
            tree = environment.parse(text)
            if _depth(tree) > MAX_TEMPLATE_DEPTH:
                raise TemplateProblem(f"the chat template nests blocks more than {MAX_TEMPLATE_DEPTH} deep")
            self.unsupported: tuple[str, ...] = tuple(sorted(_unsupported(tree)))
            code = environment.compile(Counted().visit(tree))
            self._lenient, self._strict = (_loaded(code, strict=strict) for strict in (False, True))
        except (TemplateError, RecursionError, SyntaxError) as error:  # the last if it is too complex
            raise TemplateProblem(f"the chat template cannot be read: {error}") from error
        except MemoryError:  # what Python's compiler says of too many branches
            raise TemplateProblem("the chat template cannot be read: it is too complex") from None

    def render(self, given: Rendering, seconds: float) -> str:
        """Write the prompt."""
        parts: list[str] = []
        length = 0
        try:
            for part in (self._strict if given.strict else self._lenient).generate(
                messages=given.messages,
                add_generation_prompt=given.add_generation_prompt,
                risu_char=given.character_name,
                risu_user=given.user_name,
                eos_token="",
                bos_token="",
                **counters(seconds, strict=given.strict),
            ):
                parts.append(part)
                length += len(part)
                if length > MAX_TEMPLATE_OUTPUT:
                    raise TemplateProblem(f"the chat template writes more than {MAX_TEMPLATE_OUTPUT} characters")
        except TemplateRefusal as refusal:
            raise TemplateProblem(f"the chat template refuses the messages: {refusal}") from refusal
        except (TemplateProblem, MemoryError):
            raise
        except Exception as error:  # a template can fail in any way Python can
            raise TemplateProblem(f"the chat template failed: {error}") from error
        return "".join(parts)


@cache
def _environment(*, strict: bool) -> ChatTemplateEnvironment:
    return ChatTemplateEnvironment(strict=strict)


def _loaded(code: CodeType, *, strict: bool) -> Template:
    environment = _environment(strict=strict)
    return Template.from_code(environment, code, environment.make_globals(None))


def _depth(tree: nodes.Template) -> int:
    """Return how deeply statements are nested."""
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
