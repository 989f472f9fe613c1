"""Registry of the settings by name; the module of a setting is imported on first use.

A run of one table must not import the image, GenMix and multiverse settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import final

from genlabel_paper.runs.cells import split_reading
from genlabel_paper.runs.setting import Setting

_MODULES = ("table_settings", "genmix", "genmix_hidden", "images", "multiverse")
"""Modules with a dictionary `SETTINGS`, in the order of iteration."""


@final
class _Settings(Mapping[str, Setting]):
    """Mapping of names to settings that imports modules lazily."""

    def __getitem__(self, name: str) -> Setting:
        return _load(_module_of(name))[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in _load(_module_of(name))

    def __iter__(self) -> Iterator[str]:
        return (name for module in _MODULES for name in _load(module))

    def __len__(self) -> int:
        return sum(len(_load(module)) for module in _MODULES)


@cache
def _load(module: str) -> Mapping[str, Setting]:
    settings: Mapping[str, Setting] = import_module(f"genlabel_paper.runs.{module}").SETTINGS
    return settings


def _module_of(name: str) -> str:
    """Return the module that defines a setting if it exists."""
    if split_reading(name)[1]:
        return "multiverse"
    if name.startswith("images-"):
        return "images"
    return {"genmix": "genmix", "genmix-hidden": "genmix_hidden"}.get(name, "table_settings")


SETTINGS: Mapping[str, Setting] = _Settings()
"""The settings of the paper's runs, then those under other readings of the paper's text."""
