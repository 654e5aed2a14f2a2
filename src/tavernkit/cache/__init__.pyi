from tavernkit.cache._breaks import PrefixBreak as PrefixBreak
from tavernkit.cache._breaks import find_break as find_break
from tavernkit.cache._profiles import PROFILES as PROFILES
from tavernkit.cache._profiles import CacheProfile as CacheProfile
from tavernkit.cache._prompt_cache import CacheReport as CacheReport
from tavernkit.cache._prompt_cache import CacheTurn as CacheTurn
from tavernkit.cache._prompt_cache import PromptCache as PromptCache
from tavernkit.cache._prompt_cache import predict as predict
from tavernkit.cache._spans import Origin as Origin
from tavernkit.cache._spans import ReplayedTurn as ReplayedTurn
from tavernkit.cache._spans import Span as Span
from tavernkit.cache._spans import choose_breakpoints as choose_breakpoints
from tavernkit.cache._spans import mapped_origin as mapped_origin
from tavernkit.cache._spans import plan_spans as plan_spans
from tavernkit.cache._spans import request_spans as request_spans
from tavernkit.cache._spans import with_breakpoints as with_breakpoints
from tavernkit.cache._volatile import volatile_macros as volatile_macros

__all__: list[str]
