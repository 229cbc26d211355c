"""Work on many machines, with Dask (extra ``dask``), which is imported only where it is used."""

from totalqboost.cluster.connect import ClusterError, connected

__all__ = ["ClusterError", "connected"]
