"""First step: sets the model and the estimator for counting tokens."""

from __future__ import annotations

from tavernkit._values import is_mapping
from tavernkit.budget._estimator import TokenEstimator
from tavernkit.errors import ConfigError
from tavernkit.prompt._pipeline import NoConfig, Step
from tavernkit.vibe_tavern._context import VibeTavernState
from tavernkit.vibe_tavern._options import OptionReader, is_blank
from tavernkit.vibe_tavern._section_options import TokenEstimationOptions
from tavernkit.vibe_tavern._token_estimation import canonical_model_hint, estimator


class Prepare(Step[VibeTavernState, NoConfig]):
    """Reads ``context["token_estimation"]``; sets the state's model hint and estimator unless given."""

    name = "prepare"

    def before(self, state: VibeTavernState) -> None:
        """Set both, and make sure there is a variables store."""
        _ = state.variables
        options = OptionReader(state.context.get("token_estimation"), "token_estimation", TokenEstimationOptions)
        if is_blank(state.model_hint):
            self._choose_hint(state, options)
        if state.token_estimator is None:
            self._choose_estimator(state, options)

    def _choose_hint(self, state: VibeTavernState, options: OptionReader) -> None:
        for hint, source in ((options.get("model_hint"), "context"), (state.context.default_model_hint, "default")):
            if not is_blank(hint):
                state.model_hint = canonical_model_hint(str(hint))
                state.model_hint_source = source
                return

    def _choose_estimator(self, state: VibeTavernState, options: OptionReader) -> None:
        given, registry = options.get("token_estimator"), options.get("registry")
        if given is not None:
            if not callable(getattr(given, "estimate", None)):
                raise ConfigError("token_estimation.token_estimator needs a method estimate(text, model_hint)")
            state.token_estimator = given  # pyright: ignore[reportAttributeAccessIssue]  # it estimates, as checked
            state.token_estimator_source = "context"
        elif registry is not None:
            if not is_mapping(registry):
                raise ConfigError("token_estimation.registry must map models to tokenizer entries")
            state.token_estimator = TokenEstimator(registry=registry)
            state.token_estimator_source = "context_registry"
        else:
            state.token_estimator = estimator()
            state.token_estimator_source = "default"
