"""JavaScript numbers as text and back: shortest form, fixed form, radix form, ``Number()``, ``parseInt``."""

from __future__ import annotations

import math
import re

from tavernkit._text.js_values.strings import JSRangeError, trim, trim_start

MAX_SAFE_INTEGER = 2**53 - 1
"""The largest integer up to which all integers are exact (``Number.MAX_SAFE_INTEGER``)."""

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_MAX_DIGITS = 100
_FIXED_LIMIT = 1e21

_DECIMAL = re.compile(r"[+-]?(?:Infinity|(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]+)?)")
_RADIX_LITERAL = re.compile(r"0(?:[xX]([0-9A-Fa-f]+)|[oO]([0-7]+)|[bB]([01]+))")


def as_float(value: float) -> float:
    """Return a number as a JavaScript double: integers that are too large become infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _shortest(value: float) -> tuple[str, int]:
    """Return the shortest digits that read back as a positive finite number, and the position of its decimal point."""
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    point = len(whole) + int(exponent or 0)
    digits = (whole + fraction).lstrip("0")
    point -= len(whole + fraction) - len(digits)
    return digits.rstrip("0"), point


def number_to_string(value: float) -> str:
    """Write a number in its shortest form (``Number#toString``)."""
    if isinstance(value, int) and -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        return str(int(value))
    value = as_float(value)
    if not math.isfinite(value):
        return _not_finite(value)
    if value == 0:
        return "0"
    digits, point = _shortest(abs(value))
    sign = "-" if value < 0 else ""
    if len(digits) <= point <= 21:
        return sign + digits.ljust(point, "0")
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    return sign + _exponential(digits, point - 1)


def _not_finite(value: float) -> str:
    if value != value:
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _exponential(digits: str, exponent: int) -> str:
    mantissa = f"{digits[0]}.{digits[1:]}" if len(digits) > 1 else digits
    return f"{mantissa}e{'+' if exponent >= 0 else '-'}{abs(exponent)}"


def to_fixed(value: float, digits: int = 0) -> str:
    """Write a number with this many decimals, from its exact binary value (``Number#toFixed``)."""
    if not 0 <= digits <= _MAX_DIGITS:
        raise JSRangeError("toFixed() digits argument must be between 0 and 100")
    value = as_float(value)
    if not abs(value) < _FIXED_LIMIT:
        return number_to_string(value)
    numerator, denominator = abs(value).as_integer_ratio()
    rounded = (2 * numerator * 10**digits + denominator) // (2 * denominator)  # halves up
    text = str(rounded).rjust(digits + 1, "0")
    if digits:
        text = f"{text[:-digits]}.{text[-digits:]}"
    return f"-{text}" if value < 0 else text


def to_radix_string(value: float, radix: int) -> str:
    """Write a number in another base (``Number#toString(radix)``), fractions as precisely as V8 does."""
    if not 2 <= radix <= 36:
        raise JSRangeError("toString() radix must be between 2 and 36")
    value = as_float(value)
    if radix == 10 or not math.isfinite(value) or value == 0:
        return number_to_string(value)
    sign = "-" if value < 0 else ""
    whole = math.floor(abs(value))
    fraction, carry = _radix_fraction(abs(value), radix)
    text = _radix_integer(whole + carry, radix)
    return f"{sign}{text}.{fraction}" if fraction else sign + text


def _radix_integer(value: int, radix: int) -> str:
    digits: list[str] = []
    current = float(value)
    # Beyond 53 bits the low digits are noise: V8 writes zeros for them, and so must we.
    while math.frexp(current / radix)[1] > 53:
        current /= radix
        digits.append("0")
    while True:
        remainder = math.fmod(current, radix)
        digits.append(_DIGITS[int(remainder)])
        current = (current - remainder) / radix
        if current <= 0:
            return "".join(reversed(digits))


def _radix_fraction(value: float, radix: int) -> tuple[str, int]:
    """Return the fewest digits that distinguish the fraction from its neighbours, and 1 if rounding carried over."""
    fraction = value - math.floor(value)
    delta = max(0.5 * (math.nextafter(value, math.inf) - value), math.nextafter(0.0, 1.0))
    digits: list[int] = []
    if fraction < delta:
        return "", 0
    while True:
        fraction *= radix
        delta *= radix
        digit = int(fraction)
        digits.append(digit)
        fraction -= digit
        if (fraction > 0.5 or (fraction == 0.5 and digit & 1)) and fraction + delta > 1:
            while digits:
                digit = digits.pop() + 1
                if digit < radix:
                    digits.append(digit)
                    return "".join(_DIGITS[d] for d in digits), 0
            return "", 1
        if fraction < delta:
            return "".join(_DIGITS[d] for d in digits), 0


def string_to_number(text: str) -> float:
    """Read a whole text as a number (``Number(text)``): white space around it is ignored, an empty text is 0."""
    text = trim(text)
    if not text:
        return 0.0
    if _DECIMAL.fullmatch(text):
        return float(text)
    literal = _RADIX_LITERAL.fullmatch(text)
    if literal is None or literal.lastindex is None:
        return math.nan
    return as_float(int(literal[literal.lastindex], (16, 8, 2)[literal.lastindex - 1]))


def parse_float(text: str) -> float:
    """Read the number at the start of a text (``parseFloat``)."""
    found = _DECIMAL.match(trim_start(text))
    return float(found[0]) if found else math.nan


def parse_int(text: str, radix: int | None = None) -> float:
    """Read the integer at the start of a text (``parseInt``); NaN if there is none."""
    text = trim_start(text)
    negative = text.startswith("-")
    if text[:1] in ("+", "-"):
        text = text[1:]
    base = to_int32(radix or 0)
    if base in (0, 16) and text[:2] in ("0x", "0X"):
        text, base = text[2:], 16
    base = base or 10
    if not 2 <= base <= 36:
        return math.nan
    allowed = _DIGITS[:base] + _DIGITS[10:base].upper()
    digits = text[: len(text) - len(text.lstrip(allowed))]
    if not digits:
        return math.nan
    value = _read_digits(digits, base)
    return -value if negative else value


def _read_digits(digits: str, radix: int) -> float:
    if radix == 10:
        return float(digits)
    if radix & (radix - 1) == 0:
        return as_float(int(digits, radix))
    # In other bases V8 adds up groups of digits in doubles: exact up to 53 bits, with the same errors beyond.
    digits = digits.lstrip("0")
    value, at = 0.0, 0
    while at < len(digits):
        part, multiplier = 0, 1
        while at < len(digits) and multiplier * radix <= 0xFFFFFFFF // 36:
            part = part * radix + int(digits[at], 36)
            multiplier *= radix
            at += 1
        value = value * multiplier + part
    return value


def js_round(value: float) -> float:
    """Round to the nearest integer, halves up (``Math.round``)."""
    value = as_float(value)
    if not math.isfinite(value) or value == 0:
        return value
    floor = math.floor(value)
    return math.copysign(float(floor + 1 if value - floor >= 0.5 else floor), value)


def to_integer(value: float) -> float:
    """Drop the fraction; NaN is 0 (``ToIntegerOrInfinity``)."""
    value = as_float(value)
    if value != value:
        return 0.0
    return float(math.trunc(value)) if math.isfinite(value) else value


def to_int32(value: float) -> int:
    """Wrap into a signed 32-bit integer, as the bitwise operators do."""
    wrapped = to_uint32(value)
    return wrapped - 2**32 if wrapped >= 2**31 else wrapped


def to_uint32(value: float) -> int:
    """Wrap into an unsigned 32-bit integer, as ``>>>`` does."""
    value = as_float(value)
    return math.trunc(value) % 2**32 if math.isfinite(value) else 0


def remainder(left: float, right: float) -> float:
    """Divide and return the rest with the sign of the left side (``%``)."""
    left, right = as_float(left), as_float(right)
    if right == 0 or not math.isfinite(left) or right != right:
        return math.nan
    return math.fmod(left, right)
