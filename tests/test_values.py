"""What values options may have."""

import functools
from collections.abc import Sequence
from typing import Literal

import pytest
import torch
from omegaconf import OmegaConf

from data.errors import DuetError
from tasks import cli, values
from tests.test_conf import compose_train

FITS = [  # annotation, what fits, what does not, how it is called
    (int, [0, -5, 10**30], [1.0, True, None, "5", [5], {}], "a whole number"),
    (float, [0, 1.5, -2], [True, "1.5", None, float("nan"), float("inf"), [1.5]], "a number"),
    (bool, [True, False], [0, 1, "true", None], "true or false"),
    (str, ["", "a"], [5, None, ["a"], True], "text"),
    (int | None, [None, 3], [2.5, "x"], "a whole number or null"),
    (int | float | None, [None, 3, 2.5], ["x", True], "a number or null"),
    (list[int] | None, [[], [1, 2], None], [[1.5], ["a"], 5, [None]], "a list of whole numbers or null"),
    (str | list[str], ["a", ["a", "b"]], [[1], 5], "text or a list of texts"),
    (tuple[float, float], [[0.9, 0.98], [1, 0]], [[0.9], [1, 2, 3], 5], "a list of 2 numbers"),
    (tuple[int, ...], [[], [1, 2, 3]], [["a"]], "a list of whole numbers"),
    (Sequence[float], [[1]], ["abc", 1], "a list of numbers"),
    (Literal["a", 3, None], ["a", 3], ["b", 4, True], "a, 3, None"),
    (float | torch.Tensor, [1.0], ["a", [1.0]], "a number"),
    (torch.Tensor, ["anything", 5, None], [], None),
]


@pytest.mark.parametrize("kind, right, wrong, words", FITS, ids=lambda value: str(value)[:30])
def test_what_fits(kind, right, wrong, words):
    for value in right:
        assert values.fits(value, kind), value
    for value in wrong:
        assert not values.fits(value, kind), value
    if words:
        assert values.in_words(kind) == words


WORDS = [["model=transformer_tiny"], ["model=rnn_additive", "task/teacher_forcing=linear", "decode=greedy"]]
WORDS += [["data=hub", "decode=sample", "scheduler=cosine", "optimizer=adamw", "tokenizer=characters"], ["data=couplets_txt"]]


@functools.cache
def composed(*words):
    return compose_train(list(words))


def options(config):
    """Every option of a composed config that is no part and not Hydra's."""
    return [
        key
        for key in cli.walk(config, "")
        if not key.rpartition(".")[2].startswith("_") and not OmegaConf.is_dict(OmegaConf.select(config, key))
    ]


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_the_kind_of_every_option_is_known(words):
    """None of them may be a mapping; a value of a foreign kind is told with the option's name."""
    config = composed(*words)
    values.check(config.copy(), needed=values.NEEDED)
    earlier = {key for others in WORDS[: WORDS.index(words)] for key in options(composed(*others))}
    for key in set(options(config)) - earlier:
        wrong = config.copy()
        OmegaConf.update(wrong, key, {"a": 1}, merge=False)
        with pytest.raises(DuetError) as caught:
            values.check(wrong)
        inner = key.rpartition(".")[2]  # tokenizer.vocab_size stands in data.make_src_tokenizer.vocab_size too
        assert f"{inner} must be " in str(caught.value) and "{'a': 1}" in str(caught.value), key


def others():
    """The options of the commands that have their own config."""
    for name in ("evaluate", "compare", "translate", "couplet"):
        yield from (key for key in OmegaConf.load(cli.CONF / f"{name}.yaml") if key not in ("defaults", "decode"))
    yield from (f"alignment.{key}" for key in OmegaConf.load(cli.CONF / "alignment/default.yaml"))


def test_every_option_that_is_listed_exists_and_the_other_way_round():
    known = {key for words in WORDS for key in options(composed(*words))}
    assert set(values.LEAST) <= known | {*others()}, set(values.LEAST) - known
    sides = {"tokenizer.source", "tokenizer.target"}
    assert {*others()} <= set(values.OPTIONS) <= known | {*others()} | sides, set(values.OPTIONS) - known


def test_a_number_is_a_name_where_only_text_will_do():
    config = compose_train(["data=text", "data.train_file=2016", "data.test_file=2017", "data.source_column=0"])
    values.check(config)
    assert (config.data.train_file, config.data.test_file, config.data.source_column) == ("2016", "2017", 0)
