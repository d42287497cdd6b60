"""What recurrent models promise beyond the invariants of all models: cells, scores, windows, picks, teacher forcing."""

import math

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from model.recurrent import GRU, LSTM, Additive, Dot, Embedding, Encoder, General, Hard, Monotonic, Predictive, Recurrent
from model.search import sample
from tests.models import ATTENTIONS, BLIND, BOS, EOS, PAD, RECURRENT, TINY_RNN, VOCABULARY, make, sources, targets

every_recurrent = pytest.mark.parametrize("name", RECURRENT)


# Cells and encoder


def torchs(cell, inputs, channels, **options):
    """PyTorch's layer with the weights of one of our cells, or of two for both directions."""
    order = {LSTM: [0, 1, 3, 2], GRU: [0, 1, 2]}[type(cell[0])]  # ours: input, forget, output, new
    layer = {LSTM: nn.LSTM, GRU: nn.GRU}[type(cell[0])](inputs, channels, batch_first=True, **options).double()
    with torch.no_grad():
        for ours, end in zip(cell, ("", "_reverse")):
            for name, weight in (
                ("weight_ih_l0", ours.input.weight),
                ("weight_hh_l0", ours.recurrent),
                ("bias_ih_l0", ours.input.bias),
            ):
                parts = weight.chunk(ours.gates)
                getattr(layer, name + end).copy_(torch.cat([parts[i] for i in order]))
            getattr(layer, "bias_hh_l0" + end).zero_()
    return layer


@pytest.mark.parametrize("kind", [LSTM, GRU])
def test_an_encoder_is_pytorchs_over_packed_sequences(kind):
    torch.manual_seed(0)
    forth, back = kind(6, 4), kind(6, 4)
    for cell in (forth, back):
        cell.reset_parameters()
        nn.init.normal_(cell.input.bias)
    encoder = Encoder(Embedding(VOCABULARY, 6, 0.0), [forth], [back], dropout=0.0).double()
    src, mask = sources([7, 1, 4])
    got, last = encoder(src, mask)
    lengths = mask.sum(1)
    packed = pack_padded_sequence(encoder.embedding(src), lengths, batch_first=True, enforce_sorted=False)
    packed, states = torchs([forth, back], 6, 4, bidirectional=True)(packed)
    expected, _ = pad_packed_sequence(packed, batch_first=True)
    torch.testing.assert_close(got[mask], expected[mask])
    states = states if kind is LSTM else (states,)
    for pair, state in zip(last, states, strict=True):
        torch.testing.assert_close(torch.stack(pair), state)


def test_a_forget_gate_starts_open_and_gates_are_matrices_of_their_own():
    cell = LSTM(6, 8)
    cell.reset_parameters()
    bias = cell.input.bias.chunk(4)
    assert (bias[1] == 1).all() and all((bias[i] == 0).all() for i in (0, 2, 3))
    for part in cell.recurrent.chunk(4):
        torch.testing.assert_close(part @ part.t(), torch.eye(8))


def test_states_of_both_directions_are_merged_by_layer():
    model, (src, mask) = make("lstm dot"), sources([5, 2])
    _, last = model.encoder(src, mask)
    state = model.encode(src, mask)
    torch.testing.assert_close(state["hidden.0"], last[0][0] + last[0][1])
    torch.testing.assert_close(state["cell.0"], last[1][0] + last[1][1])
    deep = make("lstm deep bridge").encode(src, mask)
    assert {f"{part}.{i}" for part in ("hidden", "cell") for i in range(3)} <= deep.keys()


# Attention


def state_of(lengths, position=0):
    width = max(lengths)
    padding = torch.zeros(len(lengths), width, dtype=torch.double)
    padding[torch.arange(width) >= torch.tensor(lengths).unsqueeze(1)] = -math.inf
    return {"padding": padding, "length": torch.tensor(lengths), "position": torch.full((len(lengths),), position)}


def test_scores_are_their_formulas():
    torch.manual_seed(0)
    q, k = torch.randn(3, 8, dtype=torch.double), torch.randn(3, 5, 8, dtype=torch.double)
    dot, general, additive = (score(8).double() for score in (Dot, General, Additive))
    assert not list(dot.parameters())
    w = torch.cat([additive.query.weight, additive.key.weight], dim=1)
    for n in range(3):
        for s in range(5):
            a, b = q[n], k[n, s]
            joint = torch.cat([a, b])
            torch.testing.assert_close(dot(q, dot.keys(k))[n, s], a @ b / math.sqrt(8))
            torch.testing.assert_close(general(q, general.keys(k))[n, s], a @ general.key.weight @ b / 8**0.5)
            expected = additive.energy.weight[0] @ (w @ joint + additive.query.bias).tanh()
            torch.testing.assert_close(additive(q, additive.keys(k))[n, s], expected)


@pytest.mark.parametrize("position", [0, 3, 8, 30])
def test_a_monotonic_window_stands_on_the_steps_place_or_the_last_one(position):
    lengths = [9, 4, 1]
    bias = Monotonic(8, 2)(torch.zeros(3, 8), state_of(lengths, position))
    for row, length in zip(bias, lengths):
        centre = min(position, length - 1)
        assert row.isfinite().nonzero().flatten().tolist() == [s for s in range(length) if abs(s - centre) <= 2]


def test_a_predicted_window_is_the_papers_renormalised():
    torch.manual_seed(0)
    reach, lengths = 2, [12, 5, 1]
    window, query = Predictive(8, reach).double(), torch.randn(3, 8, dtype=torch.double) * 3
    scores, state = torch.randn(3, 12, dtype=torch.double), state_of(lengths)
    weights = (scores + window(query, state)).softmax(dim=1)
    torch.testing.assert_close(weights.sum(1), torch.ones(3, dtype=torch.double))
    for n, length in enumerate(lengths):
        centre = length * torch.sigmoid(window.place.weight[0] @ torch.tanh(window.query.weight @ query[n]))
        centre = min(centre.item(), length - 1)
        inside = [s for s in range(length) if abs(s - round(centre)) <= reach]
        expected = torch.zeros(12, dtype=torch.double)
        expected[inside] = scores[n, inside].softmax(0) * torch.tensor(
            [math.exp(-((s - centre) ** 2) / (2 * (reach / 2) ** 2)) for s in inside]
        )
        torch.testing.assert_close(weights[n], expected / expected.sum())


def test_a_predicted_centre_past_the_end_is_the_last_token():
    window = Predictive(4, 2).double()
    nn.init.ones_(window.query.weight), nn.init.constant_(window.place.weight, 50.0)
    state = state_of([9, 3, 1])
    assert window.centre(torch.ones(3, 4, dtype=torch.double), state).flatten().tolist() == [8, 2, 0]
    assert window.centre(-torch.ones(3, 4, dtype=torch.double), state).flatten().tolist() == pytest.approx([0, 0, 0])


def test_a_hard_pick_is_one_place_with_the_gradient_of_the_soft_weights():
    weights = torch.tensor([[0.1, 0.7, 0.2], [0.5, 0.1, 0.4]], requires_grad=True)
    picked = Hard()(weights)
    assert picked.tolist() == [[0, 1, 0], [1, 0, 0]]
    grad = torch.randn(2, 3)
    picked.backward(grad)
    torch.testing.assert_close(weights.grad, grad)


def cross(name, lengths, steps):
    (src, mask), tgt = sources(lengths), targets(len(lengths), steps)
    return make(name)(src, mask, tgt, need_weights=True).attention["cross"][:, 0, 0]  # (B, T, S)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_where_each_attention_looks(cell):
    lengths, steps = [9, 4, 1], 11
    assert (
        cross(f"{cell} aligned", lengths, steps).argmax(2)
        == torch.tensor([[min(t, n - 1) for t in range(11)] for n in lengths])
    ).all()
    for name in ("aligned", "hard", "hard local_p"):
        weights = cross(f"{cell} {name}", lengths, steps)
        assert set(weights.flatten().tolist()) == {0.0, 1.0}
    for name in ("dot", "general", "additive"):
        weights = cross(f"{cell} {name}", lengths, steps)
        for row, length in zip(weights, lengths):
            assert (row[:, :length] > 0).all() and (row[:, length:] == 0).all()
    for name in ("local_m", "local_p"):
        seen = cross(f"{cell} {name}", lengths, steps) > 0
        assert seen.sum(2).max() == 2 * TINY_RNN["reach"] + 1 and (seen[2].sum(1) == 1).all()


@pytest.mark.parametrize("name", BLIND)
def test_a_model_without_attention_has_no_weights_to_show(name):
    model, (src, mask) = make(name), sources([5, 2])
    assert model(src, mask, targets(2, 4), need_weights=True).attention == {}
    state = model.encode(src, mask, need_weights=True)
    assert "cross" not in state and "cross" not in model.step(torch.tensor([2, 2]), state)[1]


def test_what_is_computed_once(monkeypatch):
    counts = {}

    def counting(title, module, name):
        original = getattr(module, name)

        def call(*args, **options):
            counts[title] = counts.get(title, 0) + 1
            return original(*args, **options)

        monkeypatch.setattr(module, name, call)

    model, (src, mask) = make("lstm additive"), sources([5, 2])
    counting("keys", model.decoder.view.score, "keys"), counting("vocabulary", model, "project")
    counting("embedding", model.decoder.embedding, "forward"), counting("token", model.decoder.token, "forward")
    model.project(model(src, mask, targets(2, 7)).hidden)
    assert counts == {"keys": 1, "vocabulary": 1, "embedding": 1, "token": 1}, "once a batch"


# Teacher forcing


def likeliest(model, src, mask, tgt, forced):
    """Hidden states of stepping with tgt's tokens where forced, and the model's own elsewhere."""
    state, tokens, logits = model.encode(src, mask), tgt[:, 0], []
    for t in range(tgt.size(1)):
        if t:
            tokens = torch.where(forced[:, t], tgt[:, t], logits[-1].argmax(-1))
        step, state = model.step(tokens, state)
        logits.append(step)
    return torch.stack(logits, dim=1)


@every_recurrent
@pytest.mark.parametrize("ratio", [0.0, 0.3, 0.7])
def test_a_coin_for_each_step_of_each_sentence(name, ratio):
    model, (src, mask), tgt = make(name), sources([7, 3, 1]), targets(3, 9)
    torch.manual_seed(5)
    forced = torch.rand(tgt.shape) < ratio
    torch.manual_seed(5)
    got = model.project(model(src, mask, tgt, teacher_forcing=ratio).hidden)
    torch.testing.assert_close(got, likeliest(model, src, mask, tgt, forced))


@every_recurrent
def test_without_teacher_forcing_a_model_writes_what_greedy_search_writes(name):
    model, (src, mask) = make(name), sources([7, 3, 1])
    with torch.no_grad():
        model.output[[PAD, BOS]] = 0.0  # never the likeliest, so that what search forbids does not matter
    own = model.project(model(src, mask, targets(3, 12), teacher_forcing=0.0).hidden).argmax(-1)
    greedy = sample(model, src, mask, bos=BOS, eos=EOS, pad=PAD, max_len=torch.full((3,), 11)).tokens[:, 0]
    for ours, theirs in zip(own.tolist(), greedy.tolist()):
        length = ours.index(EOS) + 1 if EOS in ours else 11  # at the limit only EOS is allowed
        assert ours[:length] == theirs[:length]


def test_the_coin_comes_from_torchs_seeded_generator_and_is_tossed_only_below_1():
    model, (src, mask), tgt = make("gru additive"), sources([7, 3]), targets(2, 9)
    runs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        runs.append(model(src, mask, tgt, teacher_forcing=0.5).hidden)
    torch.testing.assert_close(runs[0], runs[1], rtol=0, atol=0)
    assert not torch.allclose(runs[0], runs[2])
    before = torch.get_rng_state()
    model(src, mask, tgt)
    assert torch.equal(before, torch.get_rng_state())


@every_recurrent
def test_gradients_without_teacher_forcing_are_finite(name):
    model, (src, mask), tgt = make(name).train(), sources([7, 3, 1]), targets(3, 9)
    model.project(model(src, mask, tgt, teacher_forcing=0.5).hidden).log_softmax(-1)[..., 5].sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("ratio", [-0.1, 1.1, math.nan])
def test_a_ratio_that_is_no_probability_is_refused(ratio):
    with pytest.raises(ValueError, match="teacher_forcing is a probability"):
        make("lstm dot")(*sources([3]), targets(1, 2), teacher_forcing=ratio)


# Sizes and choices


def test_there_is_no_limit_to_lengths():
    model = make("lstm local_p")
    assert model.max_source is None and model.max_target is None and model.can_feed_itself
    assert model(*sources([300]), targets(1, 200)).hidden.isfinite().all()


@pytest.mark.parametrize("name", ATTENTIONS)
def test_bfloat16_has_finite_gradients(name):
    model = Recurrent(VOCABULARY, VOCABULARY, **(TINY_RNN | ATTENTIONS[name]))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = model(*sources([7, 3, 1]), targets(3, 5), teacher_forcing=0.5).hidden
        model.project(hidden).float().log_softmax(-1)[..., 5].sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(cell="rnn"), "cell must be one of lstm, gru, not 'rnn'"),
        (dict(attention="cosine"), "attention must be one of none, aligned, dot, general, additive, not 'cosine'"),
        (dict(window="local"), "window must be one of global, local_m, local_p, not 'local'"),
        (dict(pick="softest"), "pick must be one of soft, hard, not 'softest'"),
        (dict(merge="mean"), "merge must be one of sum, bridge"),
        (dict(tie="some"), "tie must be one of none, decoder, all"),
        (dict(attention="none", pick="hard"), "attention=none has no score.* not with global and hard"),
        (dict(attention="aligned", window="local_m"), "attention=aligned has no score.* not with local_m and soft"),
        (dict(layers=0), "layers, .* must be at least 1, not 0, 12, 10 and 2"),
        (dict(reach=0), "must be at least 1, not 1, 12, 10 and 0"),
        (dict(dropout=1.0), "dropout must be at least 0 and below 1"),
        (dict(tgt_vocabulary=21), "tie=all needs one shared vocabulary"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(options, message):
    options = dict(src_vocabulary=20, tgt_vocabulary=20) | TINY_RNN | options
    with pytest.raises(ValueError, match=message):
        Recurrent(options.pop("src_vocabulary"), options.pop("tgt_vocabulary"), **options)
