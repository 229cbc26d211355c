"""Where pictures are drawn."""

from __future__ import annotations

from typing import Any

__all__ = ["new_axes"]


def new_axes(n: int = 1) -> Any:
    """Return axes in a new figure of pyplot, or several side by side."""
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as e:
        raise ModuleNotFoundError(
            f'pictures need matplotlib ({e}); install with pip install "totalqboost[cli]"'
        ) from e
    return plt.subplots(1, n, figsize=(7 if n == 1 else 5.2 * n, 4), layout="constrained")[1]
