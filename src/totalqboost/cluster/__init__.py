"""Work on many machines, with Dask (extra ``dask``), which is imported only where it is used."""
