"""Invariants over all models: what must hold whatever the architecture."""

import pytest
import torch

from model.base import select
from tests.models import BLIND, DEAF, VARIANTS, VOCABULARY, make, sources, targets

every_model = pytest.mark.parametrize("name", VARIANTS)
every_model_with_attention = pytest.mark.parametrize("name", [name for name in VARIANTS if name not in BLIND])


def logits(model, src, mask, tgt):
    return model.project(model(src, mask, tgt).hidden)


@every_model
def test_stepping_equals_teacher_forcing(name):
    model = make(name)
    (src, mask), tgt = sources([7, 3, 1]), targets(3, 9)
    expected = logits(model, src, mask, tgt)
    state = model.encode(src, mask)
    for t in range(tgt.size(1)):
        got, state = model.step(tgt[:, t], state)
        torch.testing.assert_close(got, expected[:, t])


@every_model
def test_step_changes_no_argument(name):
    model = make(name)
    src, mask = sources([5, 4])
    state = model.encode(src, mask, need_weights=True)
    before = {key: value.clone() for key, value in state.items()}
    model.step(torch.tensor([2, 2]), state)
    assert state.keys() == before.keys()
    for key, value in state.items():
        torch.testing.assert_close(value, before[key], rtol=0, atol=0)


@every_model
def test_rows_of_the_state_can_be_reordered(name):
    model = make(name)
    (src, mask), tgt = sources([6, 2, 4]), targets(3, 4)
    state = model.encode(src, mask)
    for t in range(3):
        expected, state = model.step(tgt[:, t], state)
    rows = torch.tensor([2, 0, 0])
    expected, _ = model.step(tgt[:, 3], state)
    got, _ = model.step(tgt[rows, 3], select(state, rows))
    torch.testing.assert_close(got, expected[rows])


@every_model
def test_padding_changes_nothing(name):
    model = make(name)
    (src, mask), tgt = sources([9, 4, 1]), targets(3, 6)
    together = logits(model, src, mask, tgt)
    for i, length in enumerate([9, 4, 1]):
        alone = logits(model, src[i : i + 1, :length], mask[i : i + 1, :length], tgt[i : i + 1])
        torch.testing.assert_close(alone[0], together[i])
    wide = torch.nn.functional.pad(src, (0, 5)), torch.nn.functional.pad(mask, (0, 5))
    torch.testing.assert_close(logits(model, *wide, tgt), together)


@every_model
def test_what_stands_on_padding_is_never_read(name):
    model = make(name)
    (src, mask), tgt = sources([9, 4]), targets(2, 6)
    other = torch.where(mask, src, torch.full_like(src, VOCABULARY - 1))
    torch.testing.assert_close(logits(model, other, mask, tgt), logits(model, src, mask, tgt), rtol=0, atol=0)


@every_model
def test_the_future_does_not_leak(name):
    model = make(name)
    (src, mask), tgt = sources([5, 8]), targets(2, 8)
    expected = logits(model, src, mask, tgt)
    for t in range(1, 8):
        changed = tgt.clone()
        changed[:, t:] = (changed[:, t:] - 3) % (VOCABULARY - 4) + 4
        torch.testing.assert_close(logits(model, src, mask, changed)[:, :t], expected[:, :t], rtol=0, atol=0)
        read = not torch.allclose(logits(model, src, mask, changed)[:, t], expected[:, t])
        assert read == (name not in DEAF), "the token itself is read, but by a tagger"


@every_model
def test_the_source_is_read_to_its_last_token(name):
    model = make(name)
    (src, mask), tgt = sources([5, 5]), targets(2, 4)
    for place in range(5):
        changed = src.clone()
        changed[:, place] = (changed[:, place] + 1) % 16 + 4
        assert not torch.allclose(logits(model, changed, mask, tgt)[:, -1], logits(model, src, mask, tgt)[:, -1])


@every_model_with_attention
def test_weights_are_distributions_over_real_tokens(name):
    model = make(name).train()  # before dropout, so in training too
    (src, mask), tgt = sources([7, 3, 1]), targets(3, 5)
    output = model(src, mask, tgt, need_weights=True)
    assert output.attention
    for kind, weights in output.attention.items():
        sums = weights.sum(-1)
        if kind == "encoder":  # rows of padding mean nothing
            sums = sums.movedim(-1, 1)[mask]
        torch.testing.assert_close(sums, torch.ones_like(sums))
        if kind != "decoder":
            padding = ~mask[:, None, None, None, :].expand_as(weights)
            assert (weights[padding] == 0).all()
        else:
            assert (weights.triu(1) == 0).all()
    assert model(src, mask, tgt).attention == {}


@every_model_with_attention
def test_weights_of_steps_are_those_of_forward(name):
    model = make(name)
    (src, mask), tgt = sources([6, 3]), targets(2, 5)
    expected = model(src, mask, tgt, need_weights=True).attention["cross"]
    state = model.encode(src, mask, need_weights=True)
    for t in range(5):
        _, state = model.step(tgt[:, t], state)
        torch.testing.assert_close(state["cross"], expected[:, :, :, t])


@every_model
def test_asking_for_weights_changes_no_output(name):
    model = make(name)
    (src, mask), tgt = sources([6, 3]), targets(2, 5)
    torch.testing.assert_close(
        model(src, mask, tgt, need_weights=True).hidden, model(src, mask, tgt, need_weights=False).hidden
    )


@every_model
def test_gradients_are_finite_and_reach_every_parameter(name):
    model = make(name).train()
    (src, mask), tgt = sources([9, 4, 1]), targets(3, 6)
    logits(model, src, mask, tgt).log_softmax(-1)[..., 5].sum().backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), key
        if not key.endswith("key.bias"):  # adds the same to all scores of a query: its gradient is 0
            assert parameter.grad.abs().max() > 0, key


@every_model
def test_a_model_that_cannot_do_without_teacher_forcing_says_so(name):
    model = make(name)
    if model.can_feed_itself:
        model(*sources([3]), targets(1, 2), teacher_forcing=0.5)
        return
    with pytest.raises(ValueError, match="teacher_forcing must be 1"):
        model(*sources([3]), targets(1, 2), teacher_forcing=0.5)


def test_a_window_hides_what_is_outside_it():
    model = make("window")
    (src, mask), tgt = sources([9]), targets(1, 9)
    attention = model(src, mask, tgt, need_weights=True).attention
    far = (torch.arange(9)[:, None] - torch.arange(9)).abs() > 2
    assert (attention["encoder"][..., far] == 0).all() and (attention["decoder"][..., far] == 0).all()
    assert (attention["cross"] > 0).all()


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(heads=3), "16 channels are not by 3 heads"),
        (dict(norm="middle"), "norm must be one of pre, post, not 'middle'"),
        (dict(positions="none"), "positions must be one of sinusoidal, learned, rotary, relative"),
        (dict(tie="some"), "tie must be one of none, decoder, all"),
        (dict(activation="tanh"), "activation must be one of relu, gelu, swiglu"),
        (dict(layers=0), "layers must be at least 1"),
        (dict(dropout=1.0), "dropout must be at least 0 and below 1"),
        (dict(channels=6, heads=2, positions="rotary"), "rotary positions need an even number"),
        (dict(channels=15, heads=1, positions="sinusoidal"), "sinusoidal positions need an even number"),
        (dict(tgt_vocabulary=21), "tie=all needs one shared vocabulary"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_in_words(options, message):
    from model.transformer import Transformer
    from tests.models import TINY

    options = dict(src_vocabulary=20, tgt_vocabulary=20) | TINY | options
    with pytest.raises(ValueError, match=message):
        Transformer(options.pop("src_vocabulary"), options.pop("tgt_vocabulary"), **options)
