"""The two paths of attention, positions, norms, dropout."""

import math

import pytest
import torch

from model.attention import attend, attend_explicit, attend_fused, window_mask
from model.dropout import Dropout, dropout
from model.norm import LayerNorm
from model.positions import POSITIONS, Relative, Rotary, Sinusoidal


def tensors(queries=5, keys=5, *, grad=False):
    torch.manual_seed(0)
    shapes = [(2, 3, queries, 4), (2, 3, keys, 4), (2, 3, keys, 4)]
    return [torch.randn(shape, dtype=torch.float64, requires_grad=grad) for shape in shapes]


CASES = {
    "plain": dict(),
    "causal": dict(causal=True),
    "padding": dict(mask=torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]).bool()[:, None, None]),
    "padding and causal": dict(mask=torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]).bool()[:, None, None], causal=True),
    "bias": dict(bias=torch.randn(1, 3, 5, 5, dtype=torch.float64)),
    "bias and causal": dict(bias=torch.randn(1, 3, 5, 5, dtype=torch.float64), causal=True),
    "window": dict(mask=window_mask(5, 5, 1, device=torch.device("cpu"))),
    "nothing to see": dict(mask=torch.tensor([[0, 0, 0, 0, 0], [1, 0, 1, 1, 1]]).bool()[:, None, None]),
    "nothing to see, bias": dict(
        mask=torch.tensor([[0, 0, 0, 0, 0], [1, 0, 1, 1, 1]]).bool()[:, None, None],
        bias=torch.randn(1, 3, 5, 5, dtype=torch.float64),
    ),
    "first key hidden, causal": dict(mask=torch.tensor([[0, 1, 1, 1, 1]] * 2).bool()[:, None, None], causal=True),
}


@pytest.mark.parametrize("case", CASES)
def test_fused_equals_explicit_in_values_and_gradients(case):
    grads = []
    for path in (attend_fused, lambda *a, **k: attend_explicit(*a, **k)[0]):
        q, k, v = tensors(grad=True)
        out = path(q, k, v, **CASES[case])
        out.square().sum().backward()
        grads.append([out.detach(), q.grad, k.grad, v.grad])
    for fused, explicit in zip(*grads):
        assert fused.isfinite().all() and explicit.isfinite().all()
        torch.testing.assert_close(fused, explicit)


def test_a_query_that_may_see_nothing_gets_zero():
    q, k, v = tensors()
    mask = torch.zeros(2, 1, 1, 5, dtype=torch.bool)
    for need_weights in (False, True):
        out, weights = attend(q, k, v, mask, need_weights=need_weights)
        assert (out == 0).all()
    assert (weights == 0).all()


def test_weights_do_not_feel_dropout_but_the_output_does():
    q, k, v = tensors()
    out, weights = attend(q, k, v, dropout=0.5, need_weights=True)
    torch.testing.assert_close(weights, attend(q, k, v, need_weights=True)[1])
    assert not torch.allclose(out, attend(q, k, v)[0])


def test_attention_written_with_loops():
    q, k, v = tensors(3, 4)
    out, weights = attend(q, k, v, need_weights=True)
    for b in range(2):
        for h in range(3):
            for t in range(3):
                scores = [math.exp(float(q[b, h, t] @ k[b, h, s]) / 2) for s in range(4)]
                expected = sum(score / sum(scores) * v[b, h, s] for s, score in enumerate(scores))
                torch.testing.assert_close(out[b, h, t], expected)


@pytest.mark.parametrize("shape", [(4, 7), (2, 3, 16), (1, 1)])
@pytest.mark.parametrize("fused", [True, False])
def test_layer_norm_is_that_of_torch(shape, fused):
    torch.manual_seed(0)
    ours, theirs = LayerNorm(shape[-1], fused=fused).double(), torch.nn.LayerNorm(shape[-1], eps=1e-5).double()
    with torch.no_grad():
        ours.scale.normal_()
        ours.shift.normal_()
        theirs.weight.copy_(ours.scale)
        theirs.bias.copy_(ours.shift)
    x, y = (torch.randn(shape, generator=torch.Generator().manual_seed(1)).double().requires_grad_() for _ in range(2))
    torch.testing.assert_close(ours(x), theirs(y))
    ours(x).sin().sum().backward()
    theirs(y).sin().sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
    torch.testing.assert_close(ours.scale.grad, theirs.weight.grad)


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_dropout_keeps_as_many_as_it_says_on_every_channel_modulo_8(p):
    torch.manual_seed(0)
    kept = (dropout(torch.ones(4000, 64), p) > 0).float().view(-1, 8).mean(0)
    bound = 4 * math.sqrt(p * (1 - p) / (4000 * 8)) + 1 / 512
    assert ((kept - (1 - p)).abs() < bound).all(), kept


def test_dropout_keeps_the_mean_and_its_gradient_has_the_same_mask():
    torch.manual_seed(0)
    x = torch.ones(1000, 33, requires_grad=True)
    y = dropout(x, 0.25)
    assert abs(float(y.detach().mean()) - 1) < 0.02
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach())
    assert len(y.detach().unique()) == 2


def test_dropout_is_seeded_and_off_in_evaluation():
    x, layer = torch.randn(5, 9), Dropout(0.5)
    torch.manual_seed(3)
    first = layer(x)
    torch.manual_seed(3)
    torch.testing.assert_close(layer(x), first)
    assert layer.eval()(x) is x
    with pytest.raises(ValueError, match="not -0.1"):
        Dropout(-0.1)


def positions(name, causal=False, **options):
    return POSITIONS[name](8, 2, **(dict(max_positions=12, causal=causal) | options)).double()


def test_sinusoidal_positions_have_no_end():
    place = Sinusoidal(8, 2, max_positions=4, causal=False)
    long = Sinusoidal(8, 2, max_positions=64, causal=False)
    x = torch.zeros(1, 20, 8)
    torch.testing.assert_close(place.embed(x), long.embed(x))
    torch.testing.assert_close(place.embed(x[:, :1], 9), long.embed(x)[:, 9:10])
    torch.testing.assert_close(long.embed(x)[0, 7, 0], torch.tensor(7.0).sin())


def test_learned_positions_end():
    place = positions("learned")
    assert place.limit == 12
    with pytest.raises(ValueError, match="13 tokens are more than the 12"):
        place.embed(torch.zeros(1, 1, 8).double(), 12)


def test_rotary_scores_depend_on_the_distance_only():
    place = Rotary(8, 2, max_positions=0, causal=False).double()
    q, k = torch.randn(2, 1, 1, 1, 4, dtype=torch.float64)
    score = lambda t, s: float((place.rotate(q, t) * place.rotate(k, s)).sum())  # noqa: E731
    assert score(5, 2) == pytest.approx(score(35, 32)) and score(5, 2) != pytest.approx(score(5, 3))
    torch.testing.assert_close(place.rotate(q, 0), q)
    torch.testing.assert_close(place.rotate(q, 7).norm(), q.norm())


@pytest.mark.parametrize("causal", [False, True])
def test_relative_bias_depends_on_the_distance_only(causal):
    place = Relative(8, 2, max_positions=0, causal=causal).double()
    torch.nn.init.normal_(place.table)
    bias = place.bias(200, 200)[0, 0]
    for distance in (0, 1, 7, 40, 150) + (() if causal else (-1, -7, -40, -150)):
        assert len(bias.diagonal(-distance).unique()) == 1
    assert len(bias.diagonal(-150).unique()) == 1 and bias[199, 0] == bias[150, 0], "far is one bucket"
    assert (bias[50, 49] != bias[50, 51]) or causal
    torch.testing.assert_close(place.bias(1, 9)[0, :, 0], place.bias(9, 9)[0, :, 8])


@pytest.mark.parametrize("causal", [False, True])
def test_relative_buckets_are_those_of_t5(causal):
    buckets = Relative(8, 2, max_positions=0, causal=causal)._bucket(torch.tensor([0, 1, 7, 8, 15, 16, 31, 64, 127, 128, 999]))
    exact = [0, 1, 7, 8, 15, 16, 21, 26, 31, 31, 31] if causal else [0, 1, 7, 8, 9, 10, 11, 14, 15, 15, 15]
    # 16 + ⌊ln(d/16) / ln(8) · 16⌋ looking back only, 8 + ⌊ln(d/8) / ln(16) · 8⌋ to either side
    assert buckets.tolist() == exact


def test_a_window_is_counted_from_the_last_key():
    mask = window_mask(2, 4, 1, device=torch.device("cpu"))
    assert mask.tolist() == [[False, True, True, True], [False, False, True, True]]
