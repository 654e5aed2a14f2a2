"""The options that are sent: those of a request, under the provider's names, that its provider and model accept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit._values import FrozenObject, Json, JsonObject, freeze_object, is_mapping, thaw
from tavernkit.errors import Warn
from tavernkit.models._parameters import (
    LENGTHS,
    MODELS,
    NEUTRAL,
    PROVIDERS,
    REFUSED_WHILE_THINKING,
    ModelRule,
    ProviderRule,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFields:
    """The options of one server, if they differ from those of its protocol and models.

    >>> fields = ServerFields(taken={"max_tokens", "temperature", "min_p", "stop"}, always={"cache_prompt": True})
    """

    taken: Set[str] | None = None
    """The only options that it accepts, by their names on the wire; rules about models do not apply then."""
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names on the wire, by OpenAI's names."""
    always: Mapping[str, object] = field(default_factory=dict[str, object])
    """Fields added to every request; they override everything else."""

    def __post_init__(self) -> None:
        if self.taken is not None:
            object.__setattr__(self, "taken", frozenset(self.taken))
        object.__setattr__(self, "always", freeze_object(self.always))

    def name(self, option: str) -> str:
        """Return the server's name of an option; the two names of the token limit are interchangeable."""
        named = self.renamed.get(option, option)
        if self.taken is not None and named not in self.taken and named in LENGTHS:
            return next((other for other in LENGTHS if other in self.taken), named)
        return named


@dataclass(frozen=True, slots=True)
class Accepted:
    """The options that are sent, by their names on the wire."""

    options: JsonObject
    stop: list[Json]


def accepted_options(
    dialect: str,
    model: str,
    options: FrozenObject,
    stop: Sequence[str],
    warn: Warn,
    fields: ServerFields | None = None,
) -> Accepted:
    """Pick and rename the options that a model accepts; a warning names the others.

    Args:
        dialect: The protocol.
        model: The model that is asked.
        options: The options, by OpenAI's names.
        stop: Stop strings.
        warn: Called with what is left out.
        fields: The options that the server accepts, if known.
    """
    if fields is not None and fields.taken is not None:
        return _pick(fields, fields.taken, options, stop, warn)
    provider = PROVIDERS.get(dialect, ProviderRule(name=dialect))
    rules = [rule for rule in MODELS if rule.applies_to(dialect, model)]
    renamed = {**provider.renamed}
    for rule in rules:
        renamed.update(rule.renamed)
    renamed.update(fields.renamed if fields is not None else {})
    refused = {name for rule in rules for name in rule.refused}
    for group in (group for rule in rules for group in rule.exclusive):
        given = [name for name in group if options.get(name) is not None]
        refused.update(sorted(given, key=lambda name: options[name] == NEUTRAL.get(name))[1:])
    thinking = options.get("thinking")
    if dialect == "anthropic" and is_mapping(thinking):
        refused.update(REFUSED_WHILE_THINKING.get(str(thinking.get("type")), ()))
    sent: JsonObject = {}
    unknown: list[str] = []
    unwanted: list[str] = []
    for name, value in options.items():
        target = renamed.get(name, name)
        if value is None:
            continue
        if provider.taken is not None and target not in provider.taken:
            unknown.append(name)
        elif name in refused:
            unwanted.append(name)
        else:
            sent[target] = thaw(value)
    if stop and "stop" in refused:
        unwanted.append("stop")
        stop = ()
    _warn_left_out(provider.name, unknown, options, warn)
    _warn_left_out(model, unwanted, options, warn)
    return Accepted(sent, _stops(stop, provider, rules, warn))


def _warn_left_out(who: str, names: Sequence[str], options: FrozenObject, warn: Warn) -> None:
    """Warn about options that are left out, unless their value has no effect."""
    unsent = sorted(name for name in names if name not in NEUTRAL or options.get(name) != NEUTRAL[name])
    if unsent:
        warn(f"{who} does not take {', '.join(unsent)}: left out of the request")


def _pick(fields: ServerFields, taken: Set[str], options: FrozenObject, stop: Sequence[str], warn: Warn) -> Accepted:
    """Pick the options that a server accepts."""
    given = {name: value for name, value in options.items() if value is not None}
    unknown = [name for name in given if fields.name(name) not in taken]
    if stop and "stop" not in taken:
        unknown.append("stop")
        stop = ()
    _warn_left_out("the server", unknown, options, warn)
    sent = {fields.name(name): thaw(value) for name, value in given.items() if fields.name(name) in taken}
    return Accepted(sent, list[Json](stop))


def _stops(stop: Sequence[str], provider: ProviderRule, rules: Sequence[ModelRule], warn: Warn) -> list[Json]:
    limits = [limit for limit in (provider.max_stop, *(rule.max_stop for rule in rules)) if limit is not None]
    allowed = min(limits, default=len(stop))
    if stop and not allowed:
        warn(f"{provider.name} takes no stop strings as text: left out of the request")
    elif len(stop) > allowed:
        warn(f"only {allowed} stop strings are taken: {', '.join(map(repr, stop[allowed:]))} left out of the request")
    return list[Json](stop[:allowed])
