"""JavaScript regular expressions with a time limit: what ``RegExp`` would find, at Python offsets."""

from tavernkit._text.js_regex.errors import JSRegexSyntaxError
from tavernkit._text.js_regex.flags import FLAGS, parse_literal
from tavernkit._text.js_regex.limits import DEFAULT_TIMEOUT
from tavernkit._text.js_regex.match import JSMatch
from tavernkit._text.js_regex.regex import JSRegex
from tavernkit._text.js_regex.warming import warm_up

__all__ = ["DEFAULT_TIMEOUT", "FLAGS", "JSMatch", "JSRegex", "JSRegexSyntaxError", "parse_literal", "warm_up"]
