"""What a tagger promises beyond the invariants of all models: a place for each place, and no target token read."""

import pytest
import torch

from data.batching import Batch, collate
from data.tokenizer import PAD, Characters
from model.tagger import Tagger
from tasks.decoding import About, Beam, Greedy
from tasks.loss import smoothed_cross_entropy
from tests.models import EOS, VOCABULARY, make, sources, targets

TAGGERS = ["tagger", "tagger gru untied"]
every_tagger = pytest.mark.parametrize("name", TAGGERS)


@every_tagger
def test_no_target_token_is_read(name):
    model, (src, mask) = make(name), sources([7, 3, 1])
    torch.testing.assert_close(
        model(src, mask, targets(3, 9, seed=2)).hidden, model(src, mask, targets(3, 9, seed=3)).hidden, rtol=0, atol=0
    )


@every_tagger
def test_each_place_looks_at_its_own_and_those_past_the_end_at_eos(name):
    lengths, (src, mask) = [9, 4, 1], sources([9, 4, 1])
    output = make(name)(src, mask, targets(3, 11), need_weights=True)
    weights = output.attention["cross"]
    assert weights.shape == (3, 1, 1, 11, 9) and set(weights.flatten().tolist()) == {0.0, 1.0}
    expected = torch.tensor([[min(t, n - 1) for t in range(11)] for n in lengths])
    assert (weights[:, 0, 0].argmax(2) == expected).all()
    for hidden, length in zip(output.hidden, lengths):
        assert (hidden[length - 1 :] == hidden[length - 1]).all()


@every_tagger
def test_each_place_has_read_the_whole_source(name):
    model, (src, mask) = make(name), sources([6])
    before = model(src, mask, targets(1, 6)).hidden
    for place in range(5):
        changed = src.clone()
        changed[:, place] = (changed[:, place] + 1) % 16 + 4
        after = model(changed, mask, targets(1, 6)).hidden
        assert not any(torch.allclose(after[:, t], before[:, t]) for t in range(6))


def shifted(src, mask):
    """Another token for each token, but EOS for EOS."""
    return torch.where(mask & (src != EOS), (src - 4 + 7) % 16 + 4, src)


def test_a_tagger_learns_to_end_with_its_source():
    torch.manual_seed(0)
    model = Tagger(VOCABULARY, VOCABULARY, channels=16, embedding_channels=16, layers=1, dropout=0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for seed in range(150):
        src, mask = sources([7, 3, 1, 5, 9, 2], seed=seed)
        logits = model.project(model(src, mask, src).hidden)
        loss, _ = smoothed_cross_entropy(logits[mask], shifted(src, mask)[mask], 0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    src, mask = sources([8, 2, 6, 12], seed=1000)
    for decode in (Greedy(), Beam(size=4)):
        batch = Batch(src, mask, src, src, torch.arange(4))
        lines = decode(model.eval(), batch, About(Characters("abcdefghijklmnop"), ())).hypotheses.tokens[:, 0]
        assert torch.equal(lines[:, : src.size(1)], shifted(src, mask)) and (lines[:, src.size(1) :] == PAD).all()


@every_tagger
@pytest.mark.parametrize("source, target", [([4, 5, 6], [7]), ([4], [7, 8, 9, 10]), ([], [7])])
def test_pairs_of_any_lengths_have_a_loss(name, source, target):
    model, batch = make(name).train(), collate([(source, target), ([4, 5], [5, 4])], [0, 1])
    real = batch.gold != PAD
    hidden = model(batch.src, batch.src_mask, batch.tgt).hidden
    loss, _ = smoothed_cross_entropy(model.project(hidden[real]), batch.gold[real], 0.1)
    loss.backward()
    assert loss.isfinite() and all(p.grad.isfinite().all() for p in model.parameters())


def test_bfloat16_has_finite_gradients():
    model = Tagger(VOCABULARY, VOCABULARY, channels=12, embedding_channels=10)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = model(*sources([7, 3, 1]), targets(3, 5)).hidden
        model.project(hidden).float().log_softmax(-1)[..., 5].sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(cell="rnn"), "cell must be one of lstm, gru, not 'rnn'"),
        (dict(tie="decoder"), "tie must be one of none, all, not 'decoder'"),
        (dict(layers=0), "layers, channels and embedding_channels must be at least 1, not 0, 192 and 128"),
        (dict(dropout=1.0), "dropout must be at least 0 and below 1"),
        (dict(tgt_vocabulary=21), "tie=all needs one shared vocabulary.* allowed here: none"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(options, message):
    options = dict(tgt_vocabulary=20) | options
    with pytest.raises(ValueError, match=message):
        Tagger(20, options.pop("tgt_vocabulary"), **options)


def test_a_tagger_says_that_there_is_nothing_to_force():
    model = make("tagger")
    assert model.max_source is None and model.max_target is None and not model.can_feed_itself
    with pytest.raises(ValueError, match="reads no target token, so teacher_forcing must be 1 here, not 0.5"):
        model(*sources([3]), targets(1, 2), teacher_forcing=0.5)
