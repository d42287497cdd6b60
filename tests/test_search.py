"""Invariants of search over all models, and its edges on a model whose every probability is known."""

import itertools
import math

import pytest
import torch
from torch import nn

from model.base import Seq2Seq
from model.search import beam, penalty, sample
from tests.models import VARIANTS, make, sources

PAD, UNK, BOS, EOS = 0, 1, 2, 3
IDS = dict(bos=BOS, eos=EOS, pad=PAD)
every_model = pytest.mark.parametrize("name", VARIANTS)


def limits(*lengths):
    return torch.tensor(lengths)


def lines(found):
    return [[t for t in row if t != PAD] for row in found.tokens[:, 0].tolist()]


class Table(Seq2Seq):
    """P(next | last two tokens) from a fixed random table, another one for each first source token."""

    def __init__(self, vocabulary=6, seed=0, sharpness=1.0):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        shape = (vocabulary, vocabulary, vocabulary, vocabulary)  # source, second last, last, next
        self.table = nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64) * sharpness)

    def encode(self, src, src_mask, *, need_weights=False):
        return {"source": src[:, 0], "last": torch.full_like(src[:, 0], BOS)}

    def step(self, tokens, state):
        logits = self.table[state["source"], state["last"], tokens]
        return logits, {"source": state["source"], "last": tokens}


def brute_force(model, source: int, max_len: int, alpha: float):
    """Every sequence of at most max_len tokens and EOS, by score, best first."""
    vocabulary = model.table.size(-1)
    words = [v for v in range(vocabulary) if v not in (PAD, BOS, EOS)]
    table, found = model.table.detach().log_softmax(-1), []
    for length in range(max_len + 1):
        for sequence in itertools.product(words, repeat=length):
            path = [BOS, BOS, *sequence, EOS]
            value = sum(table[source, a, b, c].item() for a, b, c in zip(path, path[1:], path[2:]))
            found.append((value / penalty(length + 1, alpha), [*sequence, EOS]))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0, -0.5])
@pytest.mark.parametrize("max_len", [0, 1, 3, 4])
def test_a_beam_as_wide_as_everything_is_brute_force(alpha, max_len):
    model = Table(seed=max_len)
    src = torch.tensor([[4, EOS], [5, EOS]])
    found = beam(model, src, src > 0, max_len=limits(max_len, max_len), size=200, length_penalty=alpha, **IDS)
    for b, source in enumerate([4, 5]):
        expected = brute_force(model, source, max_len, alpha)
        got = [(s, [t for t in row if t != PAD]) for s, row in zip(found.scores[b].tolist(), found.tokens[b].tolist())]
        got = [(s, row) for s, row in got if s > -math.inf]
        assert len(got) == len(expected)
        assert [row for _, row in got] == [row for _, row in expected]
        assert [s for s, _ in got] == pytest.approx([s for s, _ in expected], abs=1e-5)


@every_model
def test_a_beam_as_wide_as_everything_is_brute_force_on_models(name):
    model = make(name)
    src, mask = sources([4, 2])
    found = beam(model, src, mask, max_len=limits(2, 2), size=400, length_penalty=0.6, **IDS)
    words = [v for v in range(20) if v not in (PAD, BOS, EOS)]
    for b in range(2):
        scores = {}
        for length in range(3):
            tgt = torch.tensor([[BOS, *s] for s in itertools.product(words, repeat=length)])
            n = len(tgt)
            logits = model.project(model(src[b : b + 1].expand(n, -1), mask[b : b + 1].expand(n, -1), tgt).hidden)
            gold = torch.cat([tgt[:, 1:], torch.full((n, 1), EOS)], dim=1)
            value = logits.float().log_softmax(-1).gather(2, gold.unsqueeze(2)).sum((1, 2)) / penalty(length + 1, 0.6)
            scores |= {tuple(row.tolist()): v.item() for row, v in zip(gold, value)}
        got = found.scores[b][found.scores[b] > -math.inf]
        torch.testing.assert_close(got, torch.tensor(sorted(scores.values(), reverse=True)), atol=1e-4, rtol=0)
        assert scores[tuple(lines(found)[b])] == pytest.approx(max(scores.values()), abs=1e-4)


@every_model
def test_a_beam_of_one_is_greedy(name):
    model = make(name)
    src, mask = sources([7, 3, 1, 5, 5])
    limit = limits(12, 4, 1, 0, 9)
    greedy = sample(model, src, mask, max_len=limit, **IDS)
    one = beam(model, src, mask, max_len=limit, size=1, length_penalty=1.0, **IDS)
    assert lines(one) == lines(greedy)
    torch.testing.assert_close(one.log_probs, greedy.log_probs)


SEARCHES = {
    "greedy": lambda *a, **k: sample(*a, **{**k, "seeds": None}),
    "sampling": lambda *a, **k: sample(*a, temperature=1.0, top_k=7, top_p=0.9, **k),
    "beam": lambda *a, seeds, **k: beam(*a, size=4, **k),
}


@every_model
@pytest.mark.parametrize("how", SEARCHES)
def test_a_batch_of_one_is_a_batch_of_many(name, how):
    model, search = make(name), SEARCHES[how]
    lengths = [7, 3, 1, 5, 9]
    src, mask = sources(lengths)
    limit, seeds = limits(12, 4, 1, 0, 20), torch.arange(5)
    together = search(model, src, mask, max_len=limit, seeds=seeds, **IDS)
    for b, length in enumerate(lengths):
        cut = (slice(b, b + 1), slice(length))
        alone = search(model, src[cut], mask[cut], max_len=limit[b : b + 1], seeds=seeds[b : b + 1], **IDS)
        width = alone.tokens.size(2)
        assert alone.tokens[0].tolist() == together.tokens[b, :, :width].tolist()
        assert (together.tokens[b, :, width:] == PAD).all()
        torch.testing.assert_close(alone.scores[0], together.scores[b])


@every_model
def test_scores_are_those_of_teacher_forcing(name):
    model = make(name)
    src, mask = sources([7, 3, 5])
    found = beam(model, src, mask, max_len=limits(8, 8, 8), size=3, length_penalty=0.6, **IDS)
    for b, k in itertools.product(range(3), range(3)):
        gold = found.tokens[b, k][found.tokens[b, k] != PAD].unsqueeze(0)
        tgt = torch.cat([torch.tensor([[BOS]]), gold[:, :-1]], dim=1)
        logits = model.project(model(src[b : b + 1], mask[b : b + 1], tgt).hidden)
        value = logits.float().log_softmax(-1).gather(2, gold.unsqueeze(2)).sum()
        torch.testing.assert_close(found.log_probs[b, k], value, atol=1e-4, rtol=1e-5)
        torch.testing.assert_close(found.scores[b, k], value / penalty(gold.size(1), 0.6), atol=1e-4, rtol=1e-5)


def test_limits_and_forbidden_tokens():
    model = Table(sharpness=0.1)
    with torch.no_grad():
        model.table[..., [PAD, BOS]] += 3  # would be taken everywhere
        model.table[..., EOS] -= 50  # would never come
    src = torch.tensor([[4, EOS], [5, EOS], [4, EOS]])
    for search in (sample, beam):
        found = search(model, src, src > 0, max_len=limits(0, 1, 5), **IDS)
        assert [len(line) for line in lines(found)] == [1, 2, 6]
        assert all(line[-1] == EOS and not {PAD, BOS} & set(line) for line in lines(found))
        assert (found.log_probs[:, 0] < -50).all(), "the log-probability of a forced EOS counts"


@pytest.mark.parametrize("size", [50, 7, 2])
def test_a_beam_wider_than_the_vocabulary(size):
    src = torch.tensor([[4, EOS]])
    found = beam(Table(), src, src > 0, max_len=limits(3), size=size, **IDS)
    assert found.tokens.shape == (1, size, 4)
    valid = found.scores[0] > -math.inf
    assert int(valid.sum()) == min(size, 1 + 3 + 9 + 27)
    assert (found.tokens[0][~valid] == PAD).all()
    assert (found.scores[0][valid].diff() <= 0).all()


def test_constraints_see_prefix_source_and_sentence():
    seen = []

    def ban_source(scores, prefix, source, sentence):
        seen.append((prefix.size(1), sentence.tolist(), source.tolist()))
        return scores.scatter(1, source, -math.inf)

    src = torch.tensor([[4, EOS], [5, EOS]])
    for search in (sample, beam):
        found = search(Table(), src, src > 0, max_len=limits(4, 1), constraints=[ban_source], **IDS)
        assert not any(token in row for row, token in zip(found.tokens[:, 0].tolist(), [4, 5]))
    assert seen[0] == (0, [0, 1], [[4, PAD], [5, PAD]])


def test_a_sentence_without_any_allowed_continuation_finds_nothing_and_harms_no_other():
    def never(scores, prefix, source, sentence):
        return scores.masked_fill((sentence == 0).unsqueeze(1), -math.inf)

    src = torch.tensor([[4, EOS], [5, EOS]])
    for search in (sample, beam):
        found = search(Table(), src, src > 0, max_len=limits(4, 4), constraints=[never], **IDS)
        free = search(Table(), src, src > 0, max_len=limits(4, 4), **IDS)
        assert (found.tokens[0] == PAD).all() and (found.scores[0] == -math.inf).all()
        assert found.tokens[1].tolist() == free.tokens[1].tolist()


def test_sampling_draws_what_the_model_says():
    model, count = Table(sharpness=1.0), 20_000
    src = torch.tensor([[4, EOS]]).expand(count, 2)
    found = sample(model, src, src > 0, max_len=torch.ones(count).long(), temperature=0.7, seeds=torch.arange(count), **IDS)
    expected = model.table[4, BOS, BOS].detach() / 0.7
    expected[[PAD, BOS]] = -math.inf
    got = torch.bincount(found.tokens[:, 0, 0], minlength=6) / count
    torch.testing.assert_close(got.double(), expected.softmax(0), atol=0.015, rtol=0)


@pytest.mark.parametrize("top_k, top_p, expected", [(1, 1.0, 1), (2, 1.0, 2), (99, 1.0, 4), (0, 1e-9, 1), (0, 1.0, 4)])
def test_top_k_and_top_p_limit_the_choice(top_k, top_p, expected):
    src = torch.tensor([[4, EOS]]).expand(500, 2)
    options = dict(temperature=5.0, top_k=top_k, top_p=top_p, seeds=torch.arange(500))
    found = sample(Table(), src, src > 0, max_len=torch.ones(500).long(), **options, **IDS)
    assert len(found.tokens[:, 0, 0].unique()) == expected


def test_top_p_is_the_smallest_set_that_reaches_p():
    model = Table()
    with torch.no_grad():
        model.table[...] = torch.tensor([0.0, 0.4, 0.0, 0.1, 0.3, 0.2]).clamp(min=1e-30).log()
    src = torch.tensor([[4, EOS]]).expand(500, 2)
    for top_p, expected in [(0.39, {1}), (0.41, {1, 4}), (0.69, {1, 4}), (0.71, {1, 4, 5}), (0.95, {1, 4, 5, 3})]:
        options = dict(temperature=1.0, top_p=top_p, seeds=torch.arange(500))
        found = sample(model, src, src > 0, max_len=torch.ones(500).long(), **options, **IDS)
        assert set(found.tokens[:, 0, 0].tolist()) == expected


def test_a_beam_of_none_is_refused():
    src = torch.tensor([[4, EOS]])
    with pytest.raises(ValueError, match="beam size must be at least 1, not 0"):
        beam(Table(), src, src > 0, max_len=limits(3), size=0, **IDS)
