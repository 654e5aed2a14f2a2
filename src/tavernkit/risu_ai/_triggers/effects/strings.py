"""Texts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tavernkit._text.js_values import (
    join_surrogates,
    js_lower,
    js_upper,
    utf16_at,
    utf16_length,
)
from tavernkit.risu_ai._triggers.registry import EffectTable
from tavernkit.risu_ai._triggers.values import exact_index

if TYPE_CHECKING:
    from tavernkit.risu_ai._triggers.program import Effect
    from tavernkit.risu_ai._triggers.run import Run

effects = EffectTable()


@effects.effect("v2GetCharAt")
def get_character(run: Run, effect: Effect) -> None:
    """Read one UTF-16 code unit."""
    text = run.value(effect, "source")
    index = exact_index(run.number(effect, "index"), utf16_length(text))
    run.output(effect, "null" if index is None else utf16_at(text, index))


@effects.effect("v2GetCharCount")
def count_characters(run: Run, effect: Effect) -> None:
    """Count UTF-16 code units."""
    run.output(effect, str(utf16_length(run.value(effect, "source"))))


@effects.effect("v2ToLowerCase")
def to_lower_case(run: Run, effect: Effect) -> None:
    """Make a text lower case."""
    run.output(effect, js_lower(run.value(effect, "source")))


@effects.effect("v2ToUpperCase")
def to_upper_case(run: Run, effect: Effect) -> None:
    """Make a text upper case."""
    run.output(effect, js_upper(run.value(effect, "source")))


@effects.effect("v2SetCharAt")
def set_character(run: Run, effect: Effect) -> None:
    """Replace one character; beyond the end, the text is appended without a gap."""
    text, number = join_surrogates(run.value(effect, "source")), run.number(effect, "index")
    value = run.value(effect, "value")
    if math.isfinite(number) and number >= 0 and number == (index := int(number)):
        text = text[:index] + value + text[index + 1 :]
    run.output(effect, text)


@effects.effect("v2ConcatString")
def concatenate(run: Run, effect: Effect) -> None:
    """Join two texts."""
    first, second = run.value(effect, "source1"), run.value(effect, "source2")
    run.world.budget.size(len(first) + len(second))
    run.output(effect, first + second)
