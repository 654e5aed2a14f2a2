"""Token counting and budgets: estimators and tokenizers, the trimmer and its report, the max-tokens step."""

from typing import TYPE_CHECKING

from tavernkit._lazy import lazy_exports

if TYPE_CHECKING:
    from tavernkit.budget.adapters import Adapter as Adapter
    from tavernkit.budget.adapters import FileAdapter as FileAdapter
    from tavernkit.budget.adapters import HeuristicAdapter as HeuristicAdapter
    from tavernkit.budget.adapters import ModelAdapter as ModelAdapter
    from tavernkit.budget.adapters import TiktokenAdapter as TiktokenAdapter
    from tavernkit.budget.estimator import PreloadFailure as PreloadFailure
    from tavernkit.budget.estimator import PreloadResult as PreloadResult
    from tavernkit.budget.estimator import TokenEstimator as TokenEstimator
    from tavernkit.budget.estimator import count_tokens as count_tokens
    from tavernkit.budget.estimator import default_estimator as default_estimator
    from tavernkit.budget.families import Family as Family
    from tavernkit.budget.families import family_of as family_of
    from tavernkit.budget.file_tokenizer import FileTokenizer as FileTokenizer
    from tavernkit.budget.file_tokenizer import forget_file_tokenizers as forget_file_tokenizers
    from tavernkit.budget.file_tokenizer import load_file_tokenizer as load_file_tokenizer
    from tavernkit.budget.inspector import InspectedMessage as InspectedMessage
    from tavernkit.budget.inspector import Inspection as Inspection
    from tavernkit.budget.inspector import inspect_messages as inspect_messages
    from tavernkit.budget.inspector import inspect_plan as inspect_plan
    from tavernkit.budget.max_tokens import MaxTokens as MaxTokens
    from tavernkit.budget.max_tokens import MaxTokensConfig as MaxTokensConfig
    from tavernkit.budget.overhead import OPENAI_OVERHEAD as OPENAI_OVERHEAD
    from tavernkit.budget.overhead import OverheadProfile as OverheadProfile
    from tavernkit.budget.overhead import UsageSample as UsageSample
    from tavernkit.budget.preset import PresetBudget as PresetBudget
    from tavernkit.budget.preset import max_prompt_tokens as max_prompt_tokens
    from tavernkit.budget.registry import RegistryEntry as RegistryEntry
    from tavernkit.budget.registry import TokenizerRegistry as TokenizerRegistry
    from tavernkit.budget.report import EvictionRecord as EvictionRecord
    from tavernkit.budget.report import ShortenedRecord as ShortenedRecord
    from tavernkit.budget.report import TrimReport as TrimReport
    from tavernkit.budget.report import TrimResult as TrimResult
    from tavernkit.budget.tokenization import Tokenization as Tokenization
    from tavernkit.budget.tokenizers import TOKENIZER_NAMES as TOKENIZER_NAMES
    from tavernkit.budget.tokenizers import BundledTokenizer as BundledTokenizer
    from tavernkit.budget.tokenizers import Tokenizer as Tokenizer
    from tavernkit.budget.tokenizers import get_tokenizer as get_tokenizer
    from tavernkit.budget.tokenizers import tokenizer_for_model as tokenizer_for_model
    from tavernkit.budget.trimmer import apply as apply
    from tavernkit.budget.trimmer import trim as trim

__getattr__, __all__ = lazy_exports(
    __name__,
    {
        ".adapters": ("Adapter", "FileAdapter", "HeuristicAdapter", "ModelAdapter", "TiktokenAdapter"),
        ".estimator": ("PreloadFailure", "PreloadResult", "TokenEstimator", "count_tokens", "default_estimator"),
        ".families": ("Family", "family_of"),
        ".file_tokenizer": ("FileTokenizer", "forget_file_tokenizers", "load_file_tokenizer"),
        ".inspector": ("InspectedMessage", "Inspection", "inspect_messages", "inspect_plan"),
        ".max_tokens": ("MaxTokens", "MaxTokensConfig"),
        ".overhead": ("OPENAI_OVERHEAD", "OverheadProfile", "UsageSample"),
        ".preset": ("PresetBudget", "max_prompt_tokens"),
        ".registry": ("RegistryEntry", "TokenizerRegistry"),
        ".report": ("EvictionRecord", "ShortenedRecord", "TrimReport", "TrimResult"),
        ".tokenization": ("Tokenization",),
        ".tokenizers": ("TOKENIZER_NAMES", "BundledTokenizer", "Tokenizer", "get_tokenizer", "tokenizer_for_model"),
        ".trimmer": ("apply", "trim"),
    },
)
