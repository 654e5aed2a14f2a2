"""The part of RisuAI's database that affects prompts, except the active preset."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import trim
from tavernkit._values import EMPTY_OBJECT, FrozenJson, FrozenObject, freeze_object, is_mapping, is_sequence
from tavernkit.errors import ConfigError, Warn, log_warning
from tavernkit.risu_ai._files.json_reader import JsonReader
from tavernkit.risu_ai._files.preset import Preset, preset_in_database
from tavernkit.risu_ai._models import model_flags
from tavernkit.risu_ai._objects import RisuCustomModel, RisuModule, RisuPersona, RisuSettings

DEFAULT_RETRIES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltInTexts:
    """RisuAI's built-in instructions, in our own words. You can replace them.

    The first four are used if a save has none.
    """

    main_prompt: str = ""
    """The main prompt."""
    jailbreak: str = ""
    """The jailbreak prompt."""
    additional_prompt: str = ""
    """The text added to the main prompt if the preset has ``prompt_preprocess``."""
    description_prefix: str = ""
    """The text before the description if the preset has ``prompt_preprocess``."""
    auto_suggest_prompt: str = (
        "Write what {{user}} could say next, in {{user}}'s own voice: three short suggestions, one per line, "
        "and nothing else."
    )
    """Asks for suggestions of what the user could say."""
    emotion_prompt: str = (
        "Which of these words says best what the speaker feels? Answer with that word and nothing else: {{slot}}"
    )
    """Asks which of the emotions in ``{{slot}}`` fits."""
    translation_prompt: str = (
        "Translate the text of the user into the language {{slot}}. Keep tags and line breaks as they are, and write "
        "nothing else."
    )
    """Asks for a translation into the language ``{{slot}}``."""
    chain_of_thought: str = (
        "Before you write, think about what happens next and why, inside <Thoughts> and </Thoughts>. "
        "Then write the reply after it."
    )
    """Asks the model to think first, inside ``<Thoughts>``."""
    asset_command: str = (
        'To show a picture of {{char}}, write <img="NAME"> on a line of its own. Pictures: {{chardisplayasset}}'
    )
    """Tells the model how to show pictures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The user's settings. ``preset`` is the active one; ``raw`` has every key of the database.

    ``selected_persona`` is the index of the active persona in ``personas``, which triggers read and write.
    ``jailbreak_toggle`` and ``chain_of_thought`` enable those cards. ``fallback_models`` (for the main model)
    are asked instead of the preset's model, in order. Limits of memory are read from ``raw``.
    """

    username: str = "User"
    """The user's name."""
    persona_prompt: str = ""
    """The description of the active persona."""
    personas: tuple[RisuPersona, ...] = ()
    selected_persona: int = 0
    preset: Preset = field(default_factory=Preset)
    presets: tuple[Preset, ...] = ()
    """The stored presets."""
    preset_chain: str = ""
    """Names of presets, separated by commas, of which each send uses a random one."""
    jailbreak_toggle: bool = False
    chain_of_thought: bool = False
    additional_prompt: str = ""
    """The text added to the main prompt if the preset has ``prompt_preprocess``."""
    description_prefix: str = ""
    """The text before the description if the preset has ``prompt_preprocess``."""
    lorebook_depth: int = 5
    """How many of the newest messages are searched for lorebook keys."""
    lorebook_tokens: int = 800
    """The maximum tokens of all lorebook entries together."""
    modules: tuple[RisuModule, ...] = ()
    """The stored modules."""
    enabled_modules: tuple[str, ...] = ()
    """Ids of the modules that are enabled everywhere."""
    global_variables: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """Variables that all chats share."""
    automatic_cache_point: bool = False
    """True to add cache points to templates that have none."""
    new_openai_handle: bool = True
    """True to leave out empty messages and name the speakers of examples."""
    reverse_proxy_ooba_mode: bool = False
    """True if the reverse proxy is a text-generation server."""
    custom_flags: tuple[FrozenJson, ...] | None = None
    """The user's own flags for the model; None to use those that RisuAI knows."""
    custom_models: tuple[FrozenObject, ...] = ()
    """The user's own models, as RisuAI stores them."""
    request_retries: int = DEFAULT_RETRIES
    """How often a failed request is sent again."""
    fallback_models: tuple[str, ...] = ()
    auto_continue_chat: bool = False
    """True to continue replies that do not end with a closed sentence."""
    auto_continue_min_tokens: int = 0
    """Continue replies that have fewer tokens; 0 to disable this."""
    remove_incomplete_response: bool = False
    """True to cut off an unfinished sentence at the end of a reply."""
    inlay_error_response: bool = False
    """True to write errors into the chat instead of raising them."""
    banned_scripts: tuple[str, ...] = ()
    """Unicode scripts that a reply must not contain, such as ``Han``; such a reply is requested again."""
    use_streaming: bool = False
    """True if the user wants replies piece by piece."""
    echo_message: str = "Echo Message"
    """What the model ``echo_model`` replies."""
    language: str = "en"
    """The language of RisuAI's interface."""
    texts: BuiltInTexts = field(default_factory=BuiltInTexts)
    """RisuAI's built-in instructions."""
    raw: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT, repr=False)

    @classmethod
    def from_json(cls, data: Mapping[str, object], *, warn: Warn = log_warning) -> Settings:
        """Read RisuAI's database object; missing keys get RisuAI's defaults.

        Args:
            data: The parsed file.
            warn: Called with each warning.
        """
        reader = JsonReader(data, "database", warn)
        flags = data.get("customFlags")
        return cls(
            username=reader.text("username", "User"),
            persona_prompt=reader.text("personaPrompt"),
            personas=tuple(RisuPersona.from_json(each) for each in reader.objects("personas")),
            selected_persona=reader.integer("selectedPersona", 0),
            preset=Preset.from_database(data, warn=warn),
            presets=tuple(Preset.from_json(each, warn=warn) for each in reader.objects("botPresets")),
            preset_chain=reader.text("presetChain"),
            jailbreak_toggle=reader.flag("jailbreakToggle"),
            chain_of_thought=reader.flag("chainOfThought"),
            additional_prompt=reader.text("additionalPrompt"),
            description_prefix=reader.text("descriptionPrefix"),
            lorebook_depth=reader.integer("loreBookDepth", 5),
            lorebook_tokens=reader.integer("loreBookToken", 800),
            modules=tuple(RisuModule.from_json(each) for each in reader.objects("modules")),
            enabled_modules=reader.texts("enabledModules"),
            global_variables=reader.object("globalChatVariables"),
            automatic_cache_point=reader.flag("automaticCachePoint"),
            new_openai_handle=reader.flag("newOAIHandle", default=True),
            reverse_proxy_ooba_mode=reader.flag("reverseProxyOobaMode"),
            custom_flags=tuple(_frozen_list(flags)) if reader.flag("enableCustomFlags") else None,
            custom_models=reader.objects("customModels"),
            request_retries=reader.integer("requestRetrys", DEFAULT_RETRIES),
            fallback_models=_fallback_models(data),
            auto_continue_chat=reader.flag("autoContinueChat"),
            auto_continue_min_tokens=reader.integer("autoContinueMinTokens", 0),
            remove_incomplete_response=reader.flag("removeIncompleteResponse"),
            inlay_error_response=reader.flag("inlayErrorResponse"),
            banned_scripts=reader.texts("banCharacterset"),
            use_streaming=reader.flag("useStreaming"),
            echo_message=reader.text("echoMessage", "Echo Message"),
            language=reader.text("language", "en"),
            raw=freeze_object(data),
        )

    def replace(self, **changes: object) -> Settings:
        """Return a changed copy."""
        return dataclasses.replace(self, **changes)  # pyright: ignore[reportArgumentType]  # dataclass field types

    def switch_preset(self, index: int) -> Settings:
        """Switch to another preset as RisuAI does: the active values are stored in the current one first.

        So switching to the current preset changes nothing, even if its stored copy is old.

        Raises:
            ConfigError: There is no such preset.
        """
        current = self.raw.get("botPresetsId", 0 if self.raw else None)
        if index == current:
            return self
        if not 0 <= index < len(self.presets):
            raise ConfigError(f"there is no preset {index}: there are {len(self.presets)}")
        presets = list(self.presets)
        if isinstance(current, int) and 0 <= current < len(presets):
            presets[current] = self.preset.replace(name=presets[current].name)
        raw = {**self.raw, **freeze_object(preset_in_database(presets[index].to_json())), "botPresetsId": index}
        return self.replace(preset=presets[index], presets=tuple(presets), raw=freeze_object(raw))

    def switch_persona(self, index: int) -> Settings:
        """Switch to another persona as RisuAI does: the active name and text are stored in the old one first.

        Raises:
            ConfigError: There is no such persona.
        """
        if not 0 <= index < len(self.personas):
            raise ConfigError(f"there is no persona {index}: there are {len(self.personas)}")
        personas, old = list(self.personas), self.selected_persona
        if 0 <= old < len(personas):
            personas[old] = dataclasses.replace(personas[old], name=self.username, prompt=self.persona_prompt)
        chosen = personas[index]
        return self.replace(
            personas=tuple(personas),
            selected_persona=index,
            username=chosen.name or "",
            persona_prompt=chosen.prompt or "",
        )

    def flags_of(self, model: str) -> frozenset[str]:
        """Return the flags of a model, including the user's own choices."""
        customs = {str(each.get("id")): _frozen_list(each.get("flags")) for each in self.custom_models}
        return model_flags(model, custom_flags=self.custom_flags, custom_models=customs)

    def for_texts(self, preset: Preset) -> RisuSettings:
        """Return these settings and a preset for texts."""
        integrated = map(trim, preset.module_integration.split(","))
        return RisuSettings(
            persona_prompt=self.persona_prompt,
            main_prompt=preset.main_prompt or "",
            jailbreak=preset.jailbreak or "",
            global_note=preset.global_note,
            jailbreak_toggle=self.jailbreak_toggle,
            model=preset.ai_model,
            sub_model=preset.sub_model,
            max_context=preset.max_context,
            language=self.language,
            template_default_variables=preset.template_default_variables,
            modules=self.modules,
            enabled_modules=self.enabled_modules,
            integrated_modules=tuple(item for item in integrated if item),
            custom_models=tuple(RisuCustomModel.from_json(each) for each in self.custom_models),
        )


def with_newest_summaries(settings: Settings) -> Settings:
    """Return settings with HypaMemory on: of all summaries the newest that fit, which needs no embeddings."""
    ratios = {"recentMemoryRatio": 1, "similarMemoryRatio": 0, "preserveOrphanedMemory": True}
    raw = {**settings.raw, "hypaV3": True, "hypaV3Presets": [{"name": "", "settings": ratios}], "hypaV3PresetId": 0}
    return settings.replace(raw=freeze_object(raw))


def _frozen_list(value: object) -> tuple[FrozenJson, ...]:
    return tuple(value) if is_sequence(value) else ()  # pyright: ignore[reportReturnType]  # JSON in, JSON out


def _fallback_models(database: Mapping[str, object]) -> tuple[str, ...]:
    models = database.get("fallbackModels")
    listed = models.get("model") if is_mapping(models) else None
    return tuple(model for model in listed if isinstance(model, str) and model) if is_sequence(listed) else ()
