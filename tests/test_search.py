"""Invariants of search over all models, and its edges on a model whose every probability is known."""

import itertools
import math

import pytest
import torch
from torch import nn

from model.base import Seq2Seq
from model.constraints import fixed, min_length, no_repeat_ngram, repetition_penalty
from model.search import beam, largest, penalty, sample, score
from tests.models import ATTENTIVE, BLIND, VARIANTS, make, sources

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


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0, -0.5, "average"])
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


RULES = dict(constraints=[no_repeat_ngram(2), repetition_penalty(1.3), min_length(3, EOS)])
SEARCHES = {
    "greedy": lambda *a, **k: sample(*a, **{**k, "seeds": None}),
    "greedy with rules": lambda *a, seeds, **k: sample(*a, **RULES, **k),
    "sampling": lambda *a, **k: sample(*a, temperature=1.0, top_k=7, top_p=0.9, **k),
    "beam": lambda *a, seeds, **k: beam(*a, size=4, **k),
    "the best of a beam": lambda *a, seeds, **k: beam(*a, size=4, n_best=1, length_penalty="average", **k),
    "beam with rules": lambda *a, seeds, **k: beam(*a, size=3, n_best=2, **RULES, **k),
    "diverse beam": lambda *a, seeds, **k: beam(*a, size=6, groups=3, diversity=0.7, **k),
    "coverage": lambda *a, seeds, **k: beam(*a, size=4, n_best=2, coverage_penalty=0.3, **k),
}


@every_model
@pytest.mark.parametrize("how", SEARCHES)
def test_a_batch_of_one_is_a_batch_of_many(name, how):
    if how == "coverage" and name in BLIND:
        return  # refused: tested below
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
        each = score(model, src[b : b + 1], mask[b : b + 1], tgt, gold, pad=PAD)
        torch.testing.assert_close(found.token_log_probs[b, k, : gold.size(1)], each[0], atol=1e-4, rtol=1e-5)
        assert (found.token_log_probs[b, k, gold.size(1) :] == 0).all()


def test_scoring_leaves_padding_out():
    model = make("pre")
    src, mask = sources([7, 3])
    gold = torch.tensor([[5, 6, EOS], [7, EOS, PAD]])
    tgt = torch.tensor([[BOS, 5, 6], [BOS, 7, PAD]])
    both = score(model, src, mask, tgt, gold, pad=PAD)
    assert both[1, 2] == 0
    alone = score(model, src[1:, :3], mask[1:, :3], tgt[1:, :2], gold[1:, :2], pad=PAD)
    torch.testing.assert_close(both[1:, :2], alone)


# What a beam's options do


@every_model
@pytest.mark.parametrize("alpha", [0.0, 1.0, 2.0, -0.5, "average"])
def test_stopping_early_changes_nothing(name, alpha):
    model = make(name)
    src, mask = sources([7, 3, 1, 5])
    options = dict(max_len=limits(9, 6, 3, 0), size=5, length_penalty=alpha, **IDS)
    whole = beam(model, src, mask, **options)
    for count in (1, 2, 4):
        found = beam(model, src, mask, n_best=count, **options)
        for got, expected in zip(found[:4], whole[:4]):
            torch.testing.assert_close(got, expected[:, :count])


def test_a_beam_stops_when_nothing_can_overtake():
    """Of a model that is sure of its first word, and of the end after it, no step is asked that cannot matter."""
    model = Table(sharpness=0.01)
    with torch.no_grad():
        model.table[..., EOS] += 20
    asked, step = [], model.step
    model.step = lambda tokens, state: asked.append(len(tokens)) or step(tokens, state)
    src = torch.tensor([[4, EOS]])
    beam(model, src, src > 0, max_len=limits(30), size=4, n_best=1, length_penalty=1.0, **IDS)
    stopped = len(asked)
    beam(model, src, src > 0, max_len=limits(30), size=4, length_penalty=1.0, **IDS)
    assert stopped <= 3 and stopped < len(asked) - stopped


@pytest.mark.parametrize("name", ATTENTIVE)
def test_coverage_is_its_formula(name):
    model, beta = make(name), 0.4
    src, mask = sources([6, 3])
    options = dict(max_len=limits(3, 3), size=400, length_penalty=0.6, **IDS)
    plain, found = (beam(model, src, mask, coverage_penalty=b, **options) for b in (0.0, beta))
    for b in range(2):
        there = plain.scores[b] > -math.inf
        gold, values = plain.tokens[b][there], plain.scores[b][there]
        tgt = torch.cat([torch.full_like(gold[:, :1], BOS), gold[:, :-1]], dim=1)
        each = [part[b : b + 1].expand(len(gold), -1) for part in (src, mask)]
        weights = model(*each, tgt, need_weights=True).attention["cross"].mean(dim=(1, 2))  # (K, T, S)
        length = int(mask[b].sum()) - 1  # EOS needs no translation
        covered = (weights * (gold != PAD).unsqueeze(2)).sum(dim=1)[:, :length]
        totals = values + beta * covered.clamp(1e-10, 1).log().sum(dim=1)
        expected = {tuple(t for t in row if t != PAD): total for row, total in zip(gold.tolist(), totals.tolist())}
        got = {
            tuple(t for t in row if t != PAD): value
            for row, value in zip(found.tokens[b].tolist(), found.scores[b].tolist())
            if value > -math.inf
        }
        assert got == {key: pytest.approx(value, abs=1e-4) for key, value in expected.items()}
        assert (found.scores[b][found.scores[b] > -math.inf].diff() <= 0).all()


@pytest.mark.parametrize("name", BLIND)
def test_coverage_needs_attention(name):
    src, mask = sources([4])
    with pytest.raises(ValueError, match="cross-attention"):
        beam(make(name), src, mask, max_len=limits(3), coverage_penalty=0.2, **IDS)


def rows_of(found, b=0):
    return [[t for t in row if t != PAD] for row in found.tokens[b].tolist()]


def test_diverse_beams():
    """By hand, on a model whose next token depends on nothing: log-probabilities of 1, 2 and 3 below each other."""
    model = Table()
    with torch.no_grad():
        model.table[...] = -50
        model.table[..., 4], model.table[..., 5], model.table[..., EOS] = 0.0, -1.0, -2.0
    src = torch.tensor([[4, EOS]])
    options = dict(max_len=limits(1), length_penalty=0.0, **IDS)
    same = beam(model, src, src > 0, size=3, groups=3, diversity=0.0, **options)
    assert rows_of(same) == [[4, EOS], [], []], "beams that do not see each other find the same, which counts once"
    other = beam(model, src, src > 0, size=3, groups=3, diversity=1.5, **options)
    # the second beam: 0 − 1.5 against −1 takes 5; the third: −1.5, −2.5 and −2 takes 4 again
    assert sorted(rows_of(other)) == [[], [4, EOS], [5, EOS]]
    far = beam(model, src, src > 0, size=3, groups=3, diversity=2.5, **options)
    # the third: −2.5, −3.5, and EOS at −2
    assert sorted(rows_of(far)) == [[EOS], [4, EOS], [5, EOS]]
    again = rows_of(far).index([4, EOS])
    assert far.scores[0, again] == pytest.approx(same.scores[0, 0].item()), "the penalty is none of the score"


@every_model
def test_the_first_of_diverse_beams_is_a_plain_one(name):
    model = make(name)
    src, mask = sources([7, 3])
    plain = beam(model, src, mask, max_len=limits(6, 6), size=2, **IDS)
    groups = beam(model, src, mask, max_len=limits(6, 6), size=6, groups=3, diversity=5.0, **IDS)
    for b in range(2):
        for row in rows_of(plain, b):
            assert row in rows_of(groups, b)


@pytest.mark.parametrize("size, groups", [(5, 2), (3, 0), (2, 3)])
def test_groups_must_divide_the_beam(size, groups):
    src = torch.tensor([[4, EOS]])
    with pytest.raises(ValueError, match=f"{groups} do not divide {size}"):
        beam(Table(), src, src > 0, max_len=limits(3), size=size, groups=groups, **IDS)


# Rules


def ngrams(row, n):
    return [tuple(row[i : i + n]) for i in range(len(row) - n + 1)]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_ngram_twice(n):
    model, long = Table(sharpness=0.3), min_length(30, EOS)
    src = torch.tensor([[4, EOS], [5, EOS]])
    for search in (sample, beam):
        free = search(model, src, src > 0, max_len=limits(40, 40), constraints=[long], **IDS)
        assert all(len(set(ngrams(row, n))) < len(ngrams(row, n)) for row in lines(free) if row)
        found = search(model, src, src > 0, max_len=limits(40, 40), constraints=[no_repeat_ngram(n), long], **IDS)
        assert any(lines(found))
        for row in lines(found):
            assert len(set(ngrams(row, n))) == len(ngrams(row, n))


def test_no_ngram_twice_in_a_beam_as_wide_as_everything():
    model = Table(seed=3)
    src = torch.tensor([[4, EOS]])
    found = beam(model, src, src > 0, max_len=limits(4), size=300, length_penalty=0.6, constraints=[no_repeat_ngram(2)], **IDS)
    expected = [row for _, row in brute_force(model, 4, 4, 0.6) if len(set(ngrams(row, 2))) == len(ngrams(row, 2))]
    assert [row for row in rows_of(found) if row] == expected


def test_a_repetition_penalty_is_its_formula():
    model, factor = Table(seed=5), 1.7
    src = torch.tensor([[4, EOS]])
    rules = [repetition_penalty(factor)]
    found = beam(model, src, src > 0, max_len=limits(3), size=200, length_penalty=0.0, constraints=rules, **IDS)
    table, expected = model.table.detach().log_softmax(-1), []
    for _, row in brute_force(model, 4, 3, 0.0):
        path, total = [BOS, BOS, *row], 0.0
        for place, (a, b, c) in enumerate(zip(path, path[1:], path[2:])):
            total += table[4, a, b, c].item() * (factor if c in row[:place] else 1.0)
        expected.append((total, row))
    expected.sort(reverse=True)
    assert [row for row in rows_of(found) if row] == [row for _, row in expected]
    got = found.scores[0][: len(expected)].tolist()
    assert got == pytest.approx([value for value, _ in expected], abs=1e-5)
    plain = dict((tuple(row), value) for value, row in brute_force(model, 4, 3, 0.0))
    for row, value in zip(rows_of(found), found.log_probs[0].tolist()):
        assert not row or value == pytest.approx(plain[tuple(row)], abs=1e-5), "log_probs are the model's own"


def test_min_length():
    model = Table()
    with torch.no_grad():
        model.table[..., EOS] += 5
    src = torch.tensor([[4, EOS]] * 3)
    for search in (sample, beam):
        found = search(model, src, src > 0, max_len=limits(0, 2, 9), constraints=[min_length(4, EOS)], **IDS)
        assert [len(row) - 1 for row in lines(found)] == [0, 2, 4], "the length limit wins"


def test_forbidden_tokens():
    src = torch.tensor([[4, EOS]])
    for search in (sample, beam):
        found = search(Table(), src, src > 0, max_len=limits(6), never=[UNK, 5], **IDS)
        assert not {UNK, 5} & set(found.tokens.flatten().tolist())


@every_model
def test_what_is_fixed_stands_there(name):
    model = make(name)
    src, mask = sources([7, 3, 5, 5])
    wanted = torch.tensor([[9, 8, PAD], [PAD, PAD, 7], [PAD, PAD, PAD], [4, PAD, 4]])
    rules = [fixed(wanted, eos=EOS, pad=PAD)]
    for search in (sample, beam):
        found = search(model, src, mask, max_len=limits(6, 6, 6, 3), constraints=rules, **IDS)
        for row, fix in zip(lines(found), wanted.tolist()):
            assert all(token in (PAD, got) for token, got in zip(fix, row)), (row, fix)
        free = search(model, src, mask, max_len=limits(6, 6, 6, 3), **IDS)
        assert lines(found)[2] == lines(free)[2]
        value = found.log_probs[0, 0]
        gold = torch.tensor([lines(found)[0]])
        tgt = torch.cat([torch.tensor([[BOS]]), gold[:, :-1]], dim=1)
        again = score(model, src[:1], mask[:1], tgt, gold, pad=PAD).sum()
        torch.testing.assert_close(value, again, atol=1e-4, rtol=1e-5)


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


@pytest.mark.parametrize("name", VARIANTS)
def test_the_lowest_temperature_is_greedy(name):
    model = make(name)
    src, mask = sources([5, 3])
    options = dict(max_len=limits(6, 6), **IDS)
    assert lines(sample(model, src, mask, temperature=1e-6, **options)) == lines(sample(model, src, mask, **options))


def test_a_beam_of_none_is_refused():
    src = torch.tensor([[4, EOS]])
    with pytest.raises(ValueError, match="beam size must be at least 1, not 0"):
        beam(Table(), src, src > 0, max_len=limits(3), size=0, **IDS)


def test_no_hypothesis_comes_twice_out_of_diverse_beams():
    """Without a penalty the beams all find the same."""
    model = make("pre")
    src, mask = sources([7, 3, 1, 5])
    options = dict(max_len=limits(9, 6, 3, 0), length_penalty=1.0, **IDS)
    found = beam(model, src, mask, size=6, groups=3, diversity=0.0, **options)
    alone = beam(model, src, mask, size=2, **options)
    for row in range(4):
        lines = [tuple(line) for line, score in zip(found.tokens[row].tolist(), found.scores[row]) if score > -torch.inf]
        assert len(lines) == len({*lines}) == int((alone.scores[row] > -torch.inf).sum())
        assert (found.tokens[row, len(lines) :] == IDS["pad"]).all()
        assert (found.log_probs[row, len(lines) :] == -torch.inf).all()


@pytest.mark.parametrize("size", [1, 31, 32, 4095, 4096, 8000, 8001, 8191, 32_000])
@pytest.mark.parametrize("count", [1, 5, 50])
def test_the_largest_of_a_row(size, count):
    """As topk finds them, wherever they stand; where values are equal or −∞, every place is given once."""
    generator = torch.Generator().manual_seed(size)
    few = -math.inf * torch.ones(size)
    few[-1] = 1.0
    scores = torch.stack(
        [
            torch.randn(size, generator=generator),
            torch.arange(size).float(),  # the largest behind the last whole block, and side by side
            -torch.arange(size).float(),
            torch.randint(3, (size,), generator=generator).float(),  # many equal ones
            few,
        ]
    )
    alone = torch.zeros(min(size, 200), size)
    scores = torch.cat([scores, alone.fill_diagonal_(1.0).flip(1)])  # each of the last 200 places the largest
    count = min(count, size)
    values, places = largest(scores, count)
    assert values.equal(scores.topk(count, dim=1).values)
    assert scores.gather(1, places).equal(values)
    assert all(len(set(row)) == count for row in places.tolist())
