"""Wrong arguments to the names of ``tavernkit`` itself."""

from __future__ import annotations

import importlib

import pytest

import tavernkit
from tavernkit import WarningLog
from tests.wrong_arguments import Sweep

SWEPT = ("tavernkit.budget", "tavernkit.cards", "tavernkit.prompt", "tavernkit.stores")
"""Packages with a sweep of their own."""

UNCALLED = {"LoreRow": "a row of a result, made by the thousand"}

SWEEP = Sweep("tavernkit", {"WarningLog": (WarningLog, {})}, UNCALLED)


def test_every_public_name_is_called_here_or_where_it_is_made() -> None:
    elsewhere = {name for package in SWEPT for name in importlib.import_module(package).__all__}
    left = {name for name in SWEEP.left_out() if name.partition(".")[0] not in elsewhere}
    assert not left
    assert not Sweep("tavernkit.lore", {}, UNCALLED).left_out()


def test_names_are_the_same_everywhere() -> None:
    for package in SWEPT:
        module = importlib.import_module(package)
        for name in {*module.__all__} & {*tavernkit.__all__}:
            assert getattr(module, name) is getattr(tavernkit, name)


@pytest.mark.parametrize(("name", "parameter"), SWEEP.pairs())
def test_wrong_arguments_are_refused_by_name(name: str, parameter: str) -> None:
    SWEEP.assert_refused(name, parameter)
