"""Token counting and budgets: estimators and tokenizers, the trimmer and its report, the max-tokens step."""

from tavernkit._lazy import lazy_exports

__getattr__, __all__ = lazy_exports(__name__)
