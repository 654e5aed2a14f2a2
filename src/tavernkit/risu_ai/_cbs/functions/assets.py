"""Modules, and the media of characters and modules by name."""

from __future__ import annotations

from tavernkit.risu_ai._cbs.call import CBSCall
from tavernkit.risu_ai._cbs.functions.identity import selected
from tavernkit.risu_ai._cbs.lists import make_array
from tavernkit.risu_ai._cbs.registry import FunctionGroup
from tavernkit.risu_ai._cbs.signals import FunctionFailure
from tavernkit.risu_ai._objects import Asset, RisuModule

functions = FunctionGroup("assets")


def _module(call: CBSCall) -> RisuModule | None:
    namespace = call.get(0)
    call.walk(len(call.context.settings.modules))
    return next((module for module in call.context.enabled_modules if module.namespace == namespace), None)


def _names(assets: tuple[Asset, ...] | None, what: str) -> str:
    if assets is None:
        raise FunctionFailure(f"{what} is missing")
    return make_array(asset.name for asset in assets)


@functions("moduleenabled", "module_enabled", args=("namespace",))
def moduleenabled(call: CBSCall) -> str:
    """``1`` if a module with that namespace is enabled, else ``0``."""
    return "0" if _module(call) is None else "1"


@functions("moduleassetlist", "module_assetlist", args=("namespace",))
def moduleassetlist(call: CBSCall) -> str:
    """The names of the assets of a module as a list; empty if the module does not exist."""
    module = _module(call)
    return "" if module is None else _names(module.assets, "the asset list of the module")


@functions("emotionlist")
def emotionlist(call: CBSCall) -> str:
    """The names of the character's emotion images as a list."""
    character = call.context.character
    return "" if character is None else _names(character.emotions, "the emotion list")


@functions("assetlist")
def assetlist(call: CBSCall) -> str:
    """The names of the character's assets as a list; nothing for a group."""
    character = call.context.character
    return "" if character is None or character.is_group else _names(character.assets, "the asset list")


@functions("chardisplayasset")
def chardisplayasset(call: CBSCall) -> str:
    """The names of the assets that the model may show, as a list."""
    character = selected(call)
    if character.is_group or not character.prebuilt_asset_command:
        return "[]"
    call.walk(len(character.assets or ()) + len(character.prebuilt_asset_exclude))
    hidden = set(character.prebuilt_asset_exclude)
    return make_array(asset.name for asset in character.assets or () if asset.path not in hidden)
