"""The loss against PyTorch's, schedules against their formulas, and scores against known values."""

import math

import pytest
import torch
import torch.nn.functional as F

from data.errors import DuetError
from tasks import loss
from tasks.loss import smoothed_cross_entropy
from tasks.metrics import quick_scores, scores
from tasks.schedule import Constant, Cosine, InverseSqrt


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_the_loss_and_its_gradient_are_those_of_torch(smoothing):
    torch.manual_seed(0)
    ours = (torch.randn(7, 11) * 5).requires_grad_()
    theirs = ours.detach().clone().requires_grad_()
    gold = torch.randint(11, (7,))
    got, nll = smoothed_cross_entropy(ours, gold, smoothing)
    expected = F.cross_entropy(theirs, gold, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(nll, F.cross_entropy(theirs, gold, reduction="sum"))
    (got / 3).backward()
    (expected / 3).backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
    assert not nll.requires_grad


def test_the_loss_passes_gradcheck():
    logits = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: loss.SmoothedCrossEntropy.apply(x, torch.tensor([0, 4, 2]), 0.1)[0], logits)


def test_the_loss_of_half_precision_logits_is_computed_in_float32():
    logits = torch.randn(4, 9).bfloat16()
    got, _ = smoothed_cross_entropy(logits, torch.tensor([1, 2, 3, 4]), 0.1)
    assert got.dtype == torch.float32


def rates(schedule, count, **options):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=2.0)
    scheduler, found = schedule(optimizer, **options), []
    for _ in range(count):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


def test_schedules():
    noam = rates(InverseSqrt, 400, warmup=100)
    assert noam[0] == pytest.approx(2 / 100) and noam[99] == pytest.approx(2.0) and noam[399] == pytest.approx(1.0)
    assert rates(Constant, 5) == [2.0] * 5
    assert rates(Constant, 4, warmup=2) == [1.0, 2.0, 2.0, 2.0]
    cosine = rates(Cosine, 300, warmup=50, steps=250, final=0.1)
    assert cosine[49] == pytest.approx(2.0) and cosine[150] == pytest.approx(2 * 0.55) and cosine[299] == pytest.approx(0.2)
    assert rates(InverseSqrt, 2, warmup=0)[0] == pytest.approx(2.0)
    falling = rates(Constant, 12, warmup=2, steps=10, cooldown=0.5)
    assert falling == pytest.approx([1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.6, 1.2, 0.8, 0.4, 0.0, 0.0])
    assert rates(InverseSqrt, 200, warmup=100, steps=-1, cooldown=0.5) == rates(InverseSqrt, 200, warmup=100)
    with pytest.raises(ValueError, match="scheduler.cooldown in 0 to 1, not 0 and 2"):
        rates(Constant, 1, cooldown=2)
    with pytest.raises(ValueError, match="must be above scheduler.warmup, but 10 is not above 10"):
        rates(Cosine, 1, warmup=10, steps=10)


SCORES = [  # hypotheses, references, BLEU, exact match
    (["the cat sat on the mat"], ["the cat sat on the mat"], 100.0, 100.0),
    (["a b c d", "e f g h"], ["a b c d", "e f g x"], 72.31, 50.0),
    ([""], ["a word"], 0.0, 0.0),
    (["the cat sat on a mat ."], ["The cat sat on the mat ."], 32.17, 0.0),
]


@pytest.mark.parametrize("hypotheses, references, bleu, exact", SCORES)
def test_scores(hypotheses, references, bleu, exact):
    found = scores(hypotheses, references)
    assert found["bleu"] == pytest.approx(bleu, abs=0.01) and found["exact_match"] == exact
    assert "tok:13a" in found["bleu_signature"] and "version" in found["chrf_signature"]
    assert quick_scores(hypotheses, references)["bleu"] == pytest.approx(bleu, abs=0.01)


def test_chinese_references_are_scored_by_characters():
    found = scores(["白日依山尽"], ["白日依山近"])
    assert "tok:char" in found["bleu_signature"] and found["bleu"] == pytest.approx(66.87, abs=0.01)
    assert "tok:13a" in scores(["白日"], ["白日"], tokenize="13a")["bleu_signature"]
    assert "case:lc" in scores(["A"], ["a"], lowercase=True)["bleu_signature"]


@pytest.mark.parametrize("hypotheses, references", [(["a"], ["a", "b"]), (["a"] * 5, ["a"] * 2), ([], [])])
def test_what_cannot_be_scored_is_refused(hypotheses, references):
    for score in (scores, quick_scores):
        with pytest.raises(DuetError):
            score(hypotheses, references)


def test_an_unknown_bleu_tokenizer_is_refused():
    with pytest.raises(DuetError, match="metrics.bleu.tokenize is 'moses': choose auto"):
        scores(["a"], ["a"], tokenize="moses")


def test_perplexity_of_certainty_is_one():
    logits = torch.tensor([[100.0, 0.0], [0.0, 100.0]])
    got, nll = smoothed_cross_entropy(logits, torch.tensor([0, 1]))
    assert float(got) == pytest.approx(0.0, abs=1e-6) and math.exp(float(nll)) == pytest.approx(1.0)
