"""Tables as people have them become a float matrix and a Feature per column.

``read_table`` looks at training data and says what each column is; ``encode`` brings further
data into the same form.
"""

from totalqboost.tabular.columns import MAX_CATEGORIES, is_missing
from totalqboost.tabular.frames import (
    as_table,
    column_names,
    declared_order,
    dense_column,
    distinct_names,
    is_collection,
    unmasked,
)
from totalqboost.tabular.table import encode, read_table, seen_only

__all__ = [
    "MAX_CATEGORIES",
    "as_table",
    "column_names",
    "declared_order",
    "dense_column",
    "distinct_names",
    "encode",
    "is_collection",
    "is_missing",
    "read_table",
    "seen_only",
    "unmasked",
]
