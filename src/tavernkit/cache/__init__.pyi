from tavernkit.cache.breakpoints import choose_breakpoints as choose_breakpoints
from tavernkit.cache.breakpoints import with_breakpoints as with_breakpoints
from tavernkit.cache.breaks import PrefixBreak as PrefixBreak
from tavernkit.cache.breaks import find_break as find_break
from tavernkit.cache.profiles import PROFILES as PROFILES
from tavernkit.cache.profiles import CacheProfile as CacheProfile
from tavernkit.cache.prompt_cache import CacheReport as CacheReport
from tavernkit.cache.prompt_cache import CacheTurn as CacheTurn
from tavernkit.cache.prompt_cache import PromptCache as PromptCache
from tavernkit.cache.prompt_cache import predict as predict
from tavernkit.cache.spans import Origin as Origin
from tavernkit.cache.spans import ReplayedTurn as ReplayedTurn
from tavernkit.cache.spans import Span as Span
from tavernkit.cache.spans import mapped_origin as mapped_origin
from tavernkit.cache.spans import plan_spans as plan_spans
from tavernkit.cache.spans import request_spans as request_spans
from tavernkit.cache.volatile import volatile_macros as volatile_macros

__all__: list[str]
