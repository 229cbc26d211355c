"""Threads: how many, in which order, and what becomes of them."""

from __future__ import annotations

import signal
import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from totalqboost.interruption import Interruption
from totalqboost.threads import Workers, n_threads, one_blas_thread


def test_number_of_threads_is_scikit_learns():
    assert n_threads(None) == n_threads(1) == 1
    assert n_threads(3) == 3
    assert n_threads(-1) >= 1
    assert n_threads(-1000) == 1
    with pytest.raises(ValueError, match="n_jobs must not be 0"):
        n_threads(0)


@pytest.mark.parametrize("n_jobs", [None, 1, 3])
def test_results_come_in_the_order_of_the_items(n_jobs):
    workers = Workers(n_jobs)
    names = set()

    def work(i):
        names.add(threading.current_thread().name)
        time.sleep(0.002 * (10 - i))
        return i * i

    assert workers.map(work, range(10)) == [i * i for i in range(10)]
    is_alone = names == {threading.current_thread().name}
    assert is_alone == (n_jobs != 3)
    workers.close()


def test_an_error_reaches_the_caller_and_no_thread_is_left():
    before = threading.active_count()
    workers = Workers(2)
    with pytest.raises(ZeroDivisionError):
        workers.map(lambda i: 1 // i, range(3))
    workers.close()
    assert threading.active_count() == before


def test_blas_has_one_thread_for_a_while():
    np.ones((2, 2)) @ np.ones((2, 2))

    def blas():
        return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]

    before = blas()
    with one_blas_thread():
        assert set(blas()) == {1}
    assert blas() == before


def test_ctrl_c_is_a_flag_and_the_second_one_an_exception():
    with Interruption() as interruption:
        assert not interruption.is_set
        signal.raise_signal(signal.SIGINT)
        assert interruption.is_set
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_handlers_of_others_and_other_threads_are_left_alone():
    heard = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        with Interruption() as interruption:
            signal.raise_signal(signal.SIGINT)
        assert heard == [signal.SIGINT]
        assert not interruption.is_set
    finally:
        signal.signal(signal.SIGINT, before)

    def enter():
        with Interruption():
            heard.append("entered")

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert heard[-1] == "entered"
