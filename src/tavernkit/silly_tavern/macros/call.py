"""What a handler gets to know about the call it answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tavernkit.silly_tavern.macros.blocks import dedent
from tavernkit.silly_tavern.macros.diagnostics import Diagnostic, DiagnosticKind

if TYPE_CHECKING:
    from tavernkit.silly_tavern.macros.environment import MacroEnvironment
    from tavernkit.silly_tavern.macros.nodes import MacroNode
    from tavernkit.silly_tavern.macros.registry import MacroDefinition
    from tavernkit.silly_tavern.macros.run import Expansion


class MacroFailure(Exception):  # noqa: N818 - it is not an error of the program: the macro stays in the text
    """Raised by a handler that cannot answer: the macro stays in the text and the reason is reported."""


class OutOfRoomError(MacroFailure):
    """Raised where an expansion has hit one of its limits, which is reported already: the macro stays in the text."""


class MacroCall:
    """One call of a macro: its arguments, how it is written, and the environment.

    ``args`` are the expanded arguments, a block's content being the last one; ``name`` is the name it was called by.
    """

    __slots__ = ("_node", "args", "definition", "name", "run")

    def __init__(
        self, run: Expansion, node: MacroNode, name: str, definition: MacroDefinition, args: Sequence[str]
    ) -> None:
        self.run = run
        self._node = node
        self.name = name
        self.definition = definition
        self.args = args

    @property
    def environment(self) -> MacroEnvironment:
        """What the text is expanded against."""
        return self.run.environment

    @property
    def positional(self) -> Sequence[str]:
        """The arguments in declared places."""
        return self.args[: len(self.definition.args)]

    @property
    def items(self) -> Sequence[str]:
        """The arguments of the list behind the declared places."""
        return self.args[len(self.definition.args) :] if self.definition.list is not None else ()

    @property
    def flags(self) -> str:
        """The flags in front of the name, as written."""
        return self._node.flags

    @property
    def scoped(self) -> bool:
        """Whether the last argument is a block."""
        return self._node.scoped

    @property
    def raw(self) -> str:
        """The call as written between its braces, with expanded arguments."""
        return self._node.inner_text(self.args)

    @property
    def offset(self) -> int:
        """Where the call starts, in UTF-16 code units of the text that was given."""
        return self.run.base + self._node.offset

    def argument(self, index: int, default: str = "") -> str:
        """The argument at an index, or the default."""
        return self.args[index] if index < len(self.args) else default

    def resolve(self, text: str) -> str:
        """Expand a text in the same environment."""
        return self.run.resolve(text, self.offset)

    def dedent(self, text: str) -> str:
        """Trim a block and move it to the left margin, unless the call has the flag ``#``."""
        return text if "#" in self.flags else dedent(text)

    def warn(self, about: str, message: str) -> None:
        """Report something that was wrong with the call; the macro gives what the handler returns all the same."""
        self._report("runtime_warning", about, message)

    def note_ignored(self, about: str, message: str) -> None:
        """Report something that SillyTavern ignores without a word."""
        self._report("ignored", about, message)

    def _report(self, kind: DiagnosticKind, about: str, message: str) -> None:
        self.run.report(
            Diagnostic(
                kind=kind,
                message=f"{{{{{self.name}}}}}: {message}",
                about=about,
                macro=self.name,
                position=self._node.position,
            )
        )
