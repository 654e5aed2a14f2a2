"""The engine: texts in, texts out."""

from __future__ import annotations

from tavernkit.errors import Warn, log_warning
from tavernkit.risu_ai.cbs.functions import standard_registry
from tavernkit.risu_ai.cbs.registry import CBSRegistry
from tavernkit.risu_ai.cbs.run import ParseArguments, Run, Session
from tavernkit.risu_ai.cbs.scanner import Level, LevelKind, Scanner
from tavernkit.risu_ai.cbs.signals import FunctionFailure
from tavernkit.risu_ai.cbs.source import prepare
from tavernkit.risu_ai.context import RisuContext
from tavernkit.risu_ai.errors import CBSError, CBSLimitError
from tavernkit.text.js_values import join_surrogates


class CBSEngine:
    """Expands CBS texts. One engine serves all contexts and threads; it keeps what it compiled.

    >>> CBSEngine().expand("Hi {{user}}!", RisuContext(char="Bel", user="Ann"))
    'Hi Ann!'
    """

    def __init__(self, registry: CBSRegistry | None = None) -> None:
        self.registry = standard_registry() if registry is None else registry

    def expand(
        self, text: str, context: RisuContext, *, warn: Warn | None = None, strict: bool = False, calls: int = 0
    ) -> str:
        """Expand a text as RisuAI does.

        What RisuAI leaves in the text (an unknown name, a function that fails) is left and reported to ``warn``; a
        text that makes RisuAI's parser throw, or that exceeds a limit, comes back as it was. In strict mode all of
        that raises a :class:`CBSError`. ``calls`` is where RisuAI's call counter starts.
        """
        session = Session(self, log_warning if warn is None else warn, strict=strict)
        text = join_surrogates(text)
        try:
            return session.parse(text, ParseArguments(context, calls))
        except FunctionFailure as failure:
            if strict:
                raise CBSError(str(failure)) from failure
            session.report(f"the text is kept as it was: {failure}")
        except CBSLimitError as error:
            if strict:
                raise
            session.report(f"the text is kept as it was: {error}")
        return text

    def execute(self, run: Run) -> str:
        """Expand the text of a run."""
        text = run.text
        if "{" not in text and "<" not in text:
            return text
        text = prepare(text)
        root = Level(LevelKind.ROOT, [], 0)
        return Scanner(run, [root], text, source_length=len(text), tail=len(text)).scan()
