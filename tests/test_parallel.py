"""Batches side by side: the order stays, mistakes come through, and threads are as before."""

import threading
import time

import pytest
import torch

from tasks.parallel import MOST, side_by_side


@pytest.fixture(params=[1, 2, 3, 16], autouse=True)
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    assert torch.get_num_threads() == request.param  # as it was
    torch.set_num_threads(before)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 50])
def test_results_come_in_order(count):
    def work(number):
        time.sleep(0.001 * (number % 3))
        return number * number

    assert list(side_by_side(work, iter(range(count)), "cpu")) == [number * number for number in range(count)]


def test_no_more_at_once_than_threads(threads):
    running, most, lock, together = 0, 0, threading.Lock(), min(threads, MOST)

    def work(_):
        nonlocal running, most
        with lock:
            running, most = running + 1, max(most, running + 1)
        time.sleep(0.02)
        with lock:
            running -= 1
        return torch.get_num_threads()

    shares = list(side_by_side(work, range(12), "cpu"))
    assert most == together and set(shares) == {threads // together}


def test_a_mistake_comes_through_and_ends_the_work():
    done = []

    def work(number):
        if number == 3:
            raise ValueError("three")
        done.append(number)
        return number

    with pytest.raises(ValueError, match="three"):
        list(side_by_side(work, range(1000), "cpu"))
    assert len(done) < 100


def test_items_are_not_read_far_ahead():
    read = []

    def items():
        for number in range(100):
            read.append(number)
            yield number

    results = side_by_side(lambda number: number, items(), "cpu")
    assert next(results) == 0 and len(read) <= 2 * MOST + 2
    results.close()
