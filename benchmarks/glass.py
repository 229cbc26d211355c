"""The detector of the paper's last section, on Fashion-MNIST: false positives of 20 stumps.

The rows are those of ``totalqboost reproduce glass``; they are kept in a folder beside the result,
and what is done is not done again. ``--quick`` takes made-up rows instead of the images, which not
every machine has.
"""

from __future__ import annotations

from typing import Any

from common import parse_arguments, save, say, table

from totalqboost.experiments.glass import METHODS, GlassSettings, GlassTask, run_glass, summary_of
from totalqboost.experiments.glass.bench import quick
from totalqboost.experiments.glass.run import STAGES
from totalqboost.tables import Table

PAPER = "15 to 45 %"
N_IMAGES = 70_000


def told(task: GlassTask, n_done: int, n_tasks: int) -> None:
    say(f"{n_done} of {n_tasks}: seed {task.seed}, kind {task.kind}, {task.method}")


def render(content: dict[str, Any]) -> str:
    """Return the tables of a page in docs."""
    parts = []
    for part in content["results"]["tables"]:
        parts.append(f"**{part['title']}**\n\n{table(part['header'], part['rows'])}")
    settings = content["configuration"]
    return "\n\n".join(
        [
            *parts,
            f"{settings['n_features']:,} features, {settings['n_train']:,} training rows, "
            f"{settings['n_valid']:,} validation rows, fresh rows: {_fresh(settings)}",
        ]
    )


def _fresh(settings: dict[str, Any]) -> str:
    """Return what else there is: images, or rows that are made up."""
    if settings.get("n_rows"):  # results on images may be older than the key
        return f"all others of {settings['n_rows']:,} made-up ones; no image was looked at."
    return (
        f"all others of {N_IMAGES:,}. The paper reports {PAPER} fewer false detections on its own "
        "data."
    )


def _plain(part: Table) -> dict[str, Any]:
    return {"title": part.title, "header": list(part.header), "rows": [list(r) for r in part.rows]}


def main() -> None:
    arguments = parse_arguments(__doc__, seeds=3, kinds=10)
    settings, n_seeds, kinds = GlassSettings(), arguments.seeds, list(range(arguments.kinds))
    if arguments.quick:
        settings = GlassSettings(n_rows=6000, n_train=2000, n_valid=2000, recalls=(0.8, 0.9))
        settings, n_seeds, kinds = quick(settings), 1, [1]
    tasks = [
        GlassTask(seed, kind, method)
        for seed in range(n_seeds)
        for kind in kinds
        for method in [*METHODS, STAGES]
    ]
    rows = run_glass(arguments.out / "glass", tasks, settings, on_task=told)
    configuration = {
        "n_features": settings.n_features,
        "n_train": settings.n_train,
        "n_valid": settings.n_valid,
        "n_rows": settings.n_rows,
        "kinds": sorted({row["kind"] for row in rows}),
        "seeds": sorted({row["seed"] for row in rows}),
    }
    results = {"tables": [_plain(part) for part in summary_of(rows)]}
    print(render(save("glass", arguments, configuration, results, ["lightgbm"])))


if __name__ == "__main__":
    main()
