"""That what is measured still runs; what it measures is no matter of tests."""

import pytest

from tests.runs import command

QUICK = {
    "benchmarks/decode.py": ["--rounds", "1", "--lines", "3", "--root", "nowhere"],
}


@pytest.mark.parametrize("script", QUICK)
def test_a_benchmark_runs(script, tmp_path):
    done = command(script, *QUICK[script], cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.out.count("median") == 2 and "3 of 3 outputs are the same" in done.out
