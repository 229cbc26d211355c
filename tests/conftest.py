"""Settings of the whole suite."""

from __future__ import annotations

import os
import signal

# The suite's linear algebra is tiny: on a busy machine BLAS threads cost ten times what they
# do. This must come before the first import of NumPy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import settings

# Kernels compile on their first call: no example may fail for taking long. And a run must
# give the same verdict as the one before.
settings.register_profile("totalqboost", deadline=None, derandomize=True)
settings.load_profile("totalqboost")

# A job in the background ignores Ctrl-C, and hands that on to the programs it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give each worker of ``-n`` one stretch of the tests, and to the first one done of the rest.

    Workers that get the tests of a file by turns all compile its kernels and fit its fixtures.
    """
    from xdist.scheduler import WorkStealingScheduling

    is_asked_for = config.getoption("dist") != "load"  # what -n stands for
    return None if is_asked_for else WorkStealingScheduling(config, log)
