"""JavaScript regular expressions with a time limit: what ``RegExp`` would find, at Python offsets."""

from tavernkit._text.js_regex.limits import DEFAULT_TIMEOUT
from tavernkit._text.js_regex.match import JSMatch
from tavernkit._text.js_regex.regex import JSRegex, warm_up
from tavernkit._text.js_regex.scanner import FLAGS, JSRegexSyntaxError, parse_literal

__all__ = ["DEFAULT_TIMEOUT", "FLAGS", "JSMatch", "JSRegex", "JSRegexSyntaxError", "parse_literal", "warm_up"]
