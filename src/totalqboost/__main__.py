"""``python -m totalqboost``."""

from __future__ import annotations

from totalqboost.cli import main

if __name__ == "__main__":
    main()
