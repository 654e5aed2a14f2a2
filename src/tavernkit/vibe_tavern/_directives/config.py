"""The options of directives, and ready-made ones for providers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final, cast

from tavernkit._dataclass import dataclass
from tavernkit._values import EMPTY_OBJECT, FrozenObject, deep_merge, freeze_object, is_mapping, shown
from tavernkit.errors import log_warning
from tavernkit.vibe_tavern._capabilities import provider_id
from tavernkit.vibe_tavern._options import DirectivesMode as Mode
from tavernkit.vibe_tavern._options import (
    DirectivesOptions,
    OptionReader,
    integer,
    merge_names,
    option_name,
    suggestion,
)

MODES: Final[tuple[Mode, ...]] = ("json_schema", "json_object", "prompt_only")
DEFAULT_REPAIRS: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectivesConfig:
    """Which modes are tried, how often an answer may be repaired, what goes into the requests.

    ``json_repair`` also accepts answers that are nearly JSON. Made with ``from_mapping()`` from a context's
    ``directives``.
    """

    modes: tuple[Mode, ...] = MODES
    repair_retry_count: int = DEFAULT_REPAIRS
    json_repair: bool = False
    request_overrides: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    structured_request_overrides: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    prompt_only_request_overrides: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    message_transforms: tuple[str, ...] = ()
    response_transforms: tuple[str, ...] = ()

    @classmethod
    def from_mapping(cls, value: object) -> DirectivesConfig:
        """Read options; unknown or invalid ones are refused.

        Unknown modes and invalid numbers of repairs are reported and ignored.
        """
        options = OptionReader(value, "directives", DirectivesOptions)
        return cls(
            modes=_modes(options.names("modes")),
            repair_retry_count=_repairs(options.get("repair_retry_count")),
            json_repair=options.flag("json_repair", default=False),
            request_overrides=freeze_object(options.mapping("request_overrides")),
            structured_request_overrides=freeze_object(options.mapping("structured_request_overrides")),
            prompt_only_request_overrides=freeze_object(options.mapping("prompt_only_request_overrides")),
            message_transforms=options.names("message_transforms"),
            response_transforms=options.names("response_transforms"),
        )

    def overrides_for(self, mode: Mode) -> FrozenObject:
        """Return the request overrides of one mode."""
        return self.prompt_only_request_overrides if mode == "prompt_only" else self.structured_request_overrides


def _modes(given: tuple[str, ...]) -> tuple[Mode, ...]:
    known: dict[str, None] = {}
    for name in given:
        if option_name(name) in MODES:
            known[option_name(name)] = None
        else:
            log_warning(f"directives.modes has no mode {name!r}: left out{suggestion(name, MODES)}")
    return cast("tuple[Mode, ...]", tuple(known)) or MODES


def _repairs(given: object) -> int:
    repairs = integer(given)
    if repairs is not None:
        return max(repairs, 0)
    if given is not None:
        log_warning(
            f"directives.repair_retry_count is {shown(given)}, which is not a number: {DEFAULT_REPAIRS} is used"
        )
    return DEFAULT_REPAIRS


Options = dict[str, object]

_LISTS: Final = ("message_transforms", "response_transforms")


def merge(*parts: Mapping[str, object] | None) -> Options:
    """Merge options: later parts win, request overrides merge deeply, lists of transforms unite."""
    merged: Options = {}
    for part in parts:
        for key, value in (part or {}).items():
            old = merged.get(key)
            if key in _LISTS:
                merged[key] = merge_names(old, value)
            elif is_mapping(old) and (value is None or is_mapping(value)):
                merged[key] = deep_merge(old, value or {})
            else:
                merged[key] = value
    return merged


def default_directives() -> Options:
    """Return the preset for every provider."""
    return {"modes": list(MODES), "repair_retry_count": DEFAULT_REPAIRS}


def provider_defaults(provider: str) -> Options:
    """Return the preset of a provider; empty for an unknown one.

    OpenRouter is asked to use only providers that support the parameters, if the answer's format depends on them.
    """
    if provider_id(provider) != "openrouter":
        return {}
    return {
        "structured_request_overrides": {"provider": {"require_parameters": True}},
        "prompt_only_request_overrides": {"provider": {"require_parameters": False}},
    }


def preset_for(provider: str) -> Options:
    """Return all defaults of a provider, below the application's own options. No model has quirks here so far."""
    return merge(default_directives(), provider_defaults(provider))
