"""The engine: texts in, texts out, compiled once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

from tavernkit._macros import BuildBudget, size_of
from tavernkit._text.js_values import join_surrogates
from tavernkit._values import LRUCache
from tavernkit.errors import Warn, log_warning
from tavernkit.risu_ai._cbs.compiler import Compiler, Program
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._cbs.folding import Folder
from tavernkit.risu_ai._cbs.functions import standard_registry
from tavernkit.risu_ai._cbs.limits import (
    CACHED_INSERT_BYTES,
    CACHED_TEXT_BYTES,
    MAX_COMPILED_TEXT,
    MAX_FOLDED_INSERTS,
    MAX_TREE_DEPTH,
    FunctionFailure,
)
from tavernkit.risu_ai._cbs.nodes import Takeover, fill
from tavernkit.risu_ai._cbs.registry import CBSRegistry
from tavernkit.risu_ai._cbs.run import CBSDiagnostic, CBSResult, ParseArguments, Report, Run, Session
from tavernkit.risu_ai._cbs.scanner import Level, LevelKind, Scanner
from tavernkit.risu_ai._cbs.source import joined, prepare
from tavernkit.risu_ai.errors import CBSError, CBSLimitError

K = TypeVar("K", bound=Hashable)

_NODE_BYTES = 400


class ProgramCache(LRUCache[K, Program]):
    """Keeps the most recently used programs up to a size limit."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes, _weight)


def _weight(_: object, program: Program) -> int:
    return program.size * _NODE_BYTES + program.texts + len(program.source)


class CBSEngine:
    """Expands CBS texts. One engine serves all contexts and threads; it caches compiled texts.

    >>> CBSEngine().expand("Hi {{user}}!", CBSContext(char="Bel", user="Ann"))
    'Hi Ann!'
    """

    def __init__(self, registry: CBSRegistry | None = None) -> None:
        self.registry = standard_registry() if registry is None else registry
        self._texts = ProgramCache[str](CACHED_TEXT_BYTES)
        self._inserts = ProgramCache[tuple[str, LevelKind]](CACHED_INSERT_BYTES)
        self._folder = Folder(self.registry)
        self._version = self.registry.version

    def expand(
        self, text: str, context: CBSContext, *, warn: Warn | None = None, strict: bool = False, calls: int = 0
    ) -> str:
        """Expand a text as RisuAI does.

        Tags that RisuAI leaves in the text (unknown names, failing functions) stay and are reported. A text at which
        RisuAI's parser throws, or that exceeds a limit, is returned unchanged.

        Args:
            text: The text.
            context: The data that the text can read.
            warn: Called with each warning; by default they are logged.
            strict: Raise an error instead of warning.
            calls: Where RisuAI's call counter starts.

        Raises:
            CBSError: Something is wrong with the text, in strict mode.
        """
        if not calls and "{" not in text and "<" not in text:
            return join_surrogates(text)
        send = log_warning if warn is None else warn
        return self._expand(text, context, lambda found: send(str(found)), strict=strict, calls=calls)

    def evaluate(self, text: str, context: CBSContext) -> CBSResult:
        """Expand a text and return its diagnostics instead of reporting them.

        Args:
            text: The text with CBS.
            context: The data that the text can read.
        """
        diagnostics: list[CBSDiagnostic] = []
        expanded = self._expand(text, context, diagnostics.append, strict=False, calls=0)
        return CBSResult(expanded, tuple(diagnostics))

    def _expand(self, text: str, context: CBSContext, report: Report, *, strict: bool, calls: int) -> str:
        if self._version != self.registry.version:
            self._forget()
        budget = context.cbs_budget
        if budget is not None and budget.spent:
            return self._refuse(text, budget, report, strict=strict)
        session = Session(self, report, strict=strict)
        text = join_surrogates(text)
        try:
            expanded = session.parse(text, ParseArguments(context, calls))
            if budget is None or budget.keep(size_of(expanded)):
                return expanded
            return self._refuse(text, budget, report, strict=strict)
        except FunctionFailure as failure:
            if strict:
                raise CBSError(str(failure)) from failure
            report(CBSDiagnostic("failure", f"the text is kept as it was: {failure}"))
        except CBSLimitError as error:
            if strict:
                raise
            report(CBSDiagnostic("limit", f"the text is kept as it was: {error}"))
        finally:
            if budget is not None:
                budget.spend(session.steps, session.characters)
        return text

    def _refuse(self, text: str, budget: BuildBudget, report: Report, *, strict: bool) -> str:
        """Keep a text unexpanded because its build has used up its budget; reported once per build."""
        if strict:
            raise CBSLimitError("the texts of this build do too much work together", limit="MAX_BUILD_STEPS")
        if not budget.reported:
            budget.reported = True
            report(
                CBSDiagnostic(
                    "limit", "the texts of this build do too much work together: the rest are kept as they are"
                )
            )
        return join_surrogates(text)

    def constant(self, text: str) -> str | None:
        """Return the expansion of a text if it is the same in every context; None otherwise."""
        if "{" not in text and "<" not in text:
            return join_surrogates(text)
        if len(text) > MAX_COMPILED_TEXT or type(text) is not str:
            return None
        if self._version != self.registry.version:
            self._forget()
        program = self._compile(join_surrogates(text))
        return program.text if program.depth <= MAX_TREE_DEPTH else None

    def execute(self, run: Run) -> str:
        """Expand the text of a run: its tree as far as it goes, then the scanner."""
        text = run.text
        if "{" not in text and "<" not in text:
            return text
        session = run.session
        # A traced text is scanned, because cached programs are shared by equal texts with other pieces.
        program = self._compile(text) if len(text) <= MAX_COMPILED_TEXT and type(text) is str else None
        if program is None or not session.enter(program.depth):
            text = prepare(text)
            return self._scan(run, [], Takeover(text), len(text))
        if program.text is not None:
            session.leave(program.depth)
            return program.text
        session.step(program.size)
        out: list[str] = []
        try:
            fill(program.parts, run, out)
        except Takeover as takeover:
            unfinished = takeover.with_traceback(None)  # which would keep all frames alive
        else:
            return joined(out)
        finally:
            session.leave(program.depth)
        return self._scan(run, out, unfinished, len(program.source))

    def compile_insert(self, text: str, base: LevelKind) -> Program | None:
        """Compile what an ``each`` inserts into a level of that kind; None if it is too large.

        Inserted texts may insert more at run time, which is left to the run, whose steps are counted.

        Args:
            text: The inserted text.
            base: The kind of level that it is inserted into.
        """
        if len(text) > MAX_COMPILED_TEXT:
            return None
        key = (text, base)
        program = self._inserts.get(key)
        if program is None:
            program = Compiler(text, self._folder, base=base, inserted=MAX_FOLDED_INSERTS).compile()
            self._inserts.put(key, program)
        return program

    def _compile(self, text: str) -> Program:
        program = self._texts.get(text)
        if program is None:
            program = Compiler(prepare(text), self._folder).compile()
            self._texts.put(text, program)
        return program

    def _scan(self, run: Run, out: list[str], takeover: Takeover, source_length: int) -> str:
        levels = [Level(LevelKind.ROOT, out, 0), *reversed(takeover.levels)]
        return Scanner(run, levels, takeover.text, source_length=source_length, tail=takeover.tail).scan()

    def _forget(self) -> None:
        """Drop compiled texts after functions have changed."""
        self._texts.clear()
        self._inserts.clear()
        self._folder = Folder(self.registry)
        self._version = self.registry.version
