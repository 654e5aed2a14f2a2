"""Token counting and budgets: estimators and tokenizers, the trimmer and its report, the max-tokens step."""

from tavernkit.budget.adapters import Adapter, FileAdapter, HeuristicAdapter, ModelAdapter, TiktokenAdapter
from tavernkit.budget.estimator import (
    PreloadFailure,
    PreloadResult,
    TokenEstimator,
    count_tokens,
    default_estimator,
)
from tavernkit.budget.report import EvictionRecord, ShortenedRecord, TrimReport, TrimResult
from tavernkit.budget.tokenization import Tokenization
from tavernkit.budget.tokenizers import (
    TOKENIZER_NAMES,
    BundledTokenizer,
    Tokenizer,
    get_tokenizer,
    tokenizer_for_model,
)
from tavernkit.budget.trimmer import apply, trim

__all__ = [
    "TOKENIZER_NAMES",
    "Adapter",
    "BundledTokenizer",
    "EvictionRecord",
    "FileAdapter",
    "HeuristicAdapter",
    "ModelAdapter",
    "PreloadFailure",
    "PreloadResult",
    "ShortenedRecord",
    "TiktokenAdapter",
    "TokenEstimator",
    "Tokenization",
    "Tokenizer",
    "TrimReport",
    "TrimResult",
    "apply",
    "count_tokens",
    "default_estimator",
    "get_tokenizer",
    "tokenizer_for_model",
    "trim",
]
