"""A run as it lies on disk: its rows, and what was noted beside them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from totalqboost.experiments.frontiers import dataset_names
from totalqboost.experiments.rows import Row, RunError, read_rows
from totalqboost.experiments.settings import Settings

__all__ = ["CONFIG", "FILES", "Run", "read_config", "read_run"]

ROWS = ("rows.jsonl", "rows.jsonl.gz")
CONFIG = "config.json"
FILES = (CONFIG, *ROWS)


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
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path} is damaged: {error}") from error
    if not isinstance(config, dict):
        raise RunError(f"{path} is damaged: it must hold an object")
    return config
