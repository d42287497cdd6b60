"""That what is measured still runs; what it measures is no matter of tests."""

import pytest

from benchmarks import independence
from tasks.build import BLANK
from tests.runs import command

QUICK = {
    "benchmarks/decode.py": ["--rounds", "1", "--lines", "3", "--root", "nowhere"],
}


@pytest.mark.parametrize("script", QUICK)
def test_a_benchmark_runs(script, tmp_path):
    done = command(script, *QUICK[script], cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.out.count("median") == 2 and "3 of 3 outputs are the same" in done.out


def hypothesis(text, score, *values):
    return BLANK._replace(text=text, score=score, ids=list(map(ord, text)), token_log_probs=list(values))


ONE = hypothesis("ab", -1.0, -0.4, -0.6)
PAIRS = {  # the hypotheses of one line in two batches -> texts that differ, ties, the largest difference of scores
    "the same": ([ONE], [hypothesis("ab", -1.25, -0.4, -0.85)], (0, 0, 0.25)),
    "ranked alike": ([ONE], [hypothesis("cd", -1.000005, -0.9, -0.1)], (1, 1, 0.0)),
    "alike where they part": ([ONE], [hypothesis("ac", -3.0, -0.4, -0.600005)], (1, 1, 0.0)),
    "another one": ([ONE], [hypothesis("ac", -1.1, -0.4, -0.7)], (1, 0, 0.0)),
    "one more": ([ONE], [ONE, hypothesis("c", -2.0, -2.0)], (1, 0, 0.0)),
    "a beginning": ([ONE], [hypothesis("a", -0.4, -0.4)], (1, 0, 0.0)),
}


@pytest.mark.parametrize("case", PAIRS)
def test_what_depends_on_a_batch_is_counted(case):
    one, other, expected = PAIRS[case]
    assert independence.differences([one, [BLANK]], [other, [BLANK]]) == pytest.approx(expected)


def test_mixed_lines_have_all_that_is_said_of_them(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n".join(" ".join(f"w{i % 37}" for i in range(n, n + 12)) for n in range(60)))
    lines = independence.mixed(text, 1000)
    lengths = [len(line.split()) for line in lines if "龘" not in line]
    assert len(lines) == 1000 and min(lengths) == 0 and 50 <= max(lengths) <= 60
    assert sum(not line.strip() for line in lines) == 50 and len({line for line in lines if "龘" in line}) == 5
