"""Where pictures are drawn."""

from __future__ import annotations

from typing import Any

__all__ = ["new_axes"]


def new_axes() -> Any:
    """Return axes in a new figure of pyplot."""
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as e:
        raise ModuleNotFoundError(
            f'pictures need matplotlib ({e}); install with pip install "totalqboost[cli]"'
        ) from e
    return plt.subplots(figsize=(7, 4), layout="constrained")[1]
