"""Options of directives, typed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, cast

from tavernkit.text.coerce import boolean
from tavernkit.values import EMPTY_OBJECT, FrozenObject, freeze_object
from tavernkit.vibe_tavern.options import integer, names, option_name, section

Mode = Literal["json_schema", "json_object", "prompt_only"]

MODES: Final = ("json_schema", "json_object", "prompt_only")
DEFAULT_REPAIRS: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectivesConfig:
    """Which ways of asking are tried, how often an answer may be repaired, what goes into the requests.

    ``json_repair`` also takes answers that are nearly JSON. Made with :meth:`from_mapping` from a context's
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
        """Read options; unknown modes are left out."""
        options = section(value, "directives")
        known = [name for name in map(option_name, names(options.get("modes")) or ()) if name in MODES]
        repairs = integer(options.get("repair_retry_count"))
        return cls(
            modes=cast("tuple[Mode, ...]", tuple(dict.fromkeys(known)) or MODES),
            repair_retry_count=DEFAULT_REPAIRS if repairs is None else max(repairs, 0),
            json_repair=boolean(options.get("json_repair"), default=False),
            request_overrides=_overrides(options.get("request_overrides"), "request_overrides"),
            structured_request_overrides=_overrides(
                options.get("structured_request_overrides"), "structured_request_overrides"
            ),
            prompt_only_request_overrides=_overrides(
                options.get("prompt_only_request_overrides"), "prompt_only_request_overrides"
            ),
            message_transforms=tuple(names(options.get("message_transforms")) or ()),
            response_transforms=tuple(names(options.get("response_transforms")) or ()),
        )

    def overrides_for(self, mode: Mode) -> FrozenObject:
        """The request overrides that hold only for one mode."""
        return self.prompt_only_request_overrides if mode == "prompt_only" else self.structured_request_overrides


def _overrides(value: object, name: str) -> FrozenObject:
    return freeze_object(section(value, f"directives.{name}"))
