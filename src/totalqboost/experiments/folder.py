"""A run as it lies on disk: its rows, and what was noted beside them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from totalqboost.experiments.frontiers import dataset_names
from totalqboost.experiments.rows import MOST, Row, RunError, read_rows
from totalqboost.experiments.settings import Settings
from totalqboost.files import parse_json, read_bytes
from totalqboost.parameters import check_integer, check_number, short

__all__ = ["CONFIG", "FILES", "Run", "check_settings", "read_config", "read_run"]

ROWS = ("rows.jsonl", "rows.jsonl.gz")
CONFIG = "config.json"
FILES = (CONFIG, *ROWS)
MOST_CONFIG = 10**6  # bytes
NOTED = {"settings": dict, "versions": dict, "machine": dict, "later_versions": list, "jobs": int}
KINDS = {dict: "an object", list: "a list", int: "an integer"}


@dataclass(frozen=True)
class Run:
    """Rows, and the settings, versions, machine and timings that belong to them, if noted."""

    name: str
    rows: tuple[Row, ...]
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def splits(self) -> tuple[int, ...]:
        return tuple(sorted({row.split for row in self.rows}))

    @property
    def datasets(self) -> list[str]:
        return dataset_names(row.dataset for row in self.rows)

    @property
    def n_hot(self) -> int | None:
        """T' of the run's settings, None if they are not noted."""
        held = self.config.get("settings")
        known = {field.name for field in fields(Settings)}
        if not isinstance(held, Mapping) or not held or not set(held) <= known:
            return None
        return Settings(**held).n_hot

    def of(self, dataset: str) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.dataset == dataset)


def read_run(folder: str | os.PathLike[str]) -> Run:
    """Read a folder that ``totalqboost reproduce`` has filled, wholly or in part."""
    folder = Path(folder)
    if not folder.is_dir():
        raise RunError(f"there is no folder {folder}")
    present = [folder / name for name in ROWS if (folder / name).exists()]
    if not present:
        raise RunError(f"{folder} holds no run: there is no {' or '.join(ROWS)} in it")
    rows = read_rows(present[0])
    if not rows:
        raise RunError(f"{present[0]} has no rows yet")
    config = folder / CONFIG
    # Rows alone make a report too.
    return Run(folder.resolve().name, tuple(rows), read_config(config) if config.exists() else {})


def read_config(path: Path) -> dict[str, Any]:
    """Return what is noted beside the rows."""
    try:
        config = parse_json(read_bytes(path, MOST_CONFIG))
        if not isinstance(config, dict):
            raise ValueError("it must hold an object")
        if check_number("wall_seconds", config.get("wall_seconds", 0.0)) > MOST:
            raise ValueError(f"wall_seconds must be at most {MOST:,}")
        for name, kind in NOTED.items():
            if not isinstance(config.get(name, kind()), kind):
                raise ValueError(f"{name} must be {KINDS[kind]}, got {short(config[name])}")
        check_settings(config.get("settings", {}), "settings.")
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}") from error
    return config


def check_settings(settings: Mapping[str, Any], place: str = "") -> None:
    """Raise unless settings have the types that they have in ``Settings``; others are not ours.

    A complaint puts ``place`` before the name.
    """
    for name, value in settings.items():
        if hasattr(Settings, name) and not (name == "time_limit" and value is None):
            _check_setting(place + name, value, getattr(Settings, name))


def _check_setting(name: str, value: Any, wanted: Any) -> None:
    if isinstance(wanted, str | bool):
        if type(value) is not type(wanted):
            raise ValueError(f"{name} must be like {wanted!r}, got {short(value)}")
    elif isinstance(wanted, int):
        check_integer(name, value, 0)
    else:
        check_number(name, value)
    if isinstance(value, int | float) and value > MOST:  # a product of two must stay finite
        raise ValueError(f"{name} must be at most {MOST:,}, got {short(value)}")
