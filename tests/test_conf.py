"""Every file in conf/ composes and can be instantiated, and says what the Python signature says."""

import inspect

import hydra.utils
import pytest
from omegaconf import OmegaConf

from tasks import cli
from tasks.build import TARGETS, make
from tasks.checkpoints import EMA
from tasks.options import options_of

GIVEN = {  # parameters that are objects, given by tasks/build.py
    "model": {"src_vocabulary", "tgt_vocabulary"},
    "task": {"model", "src_tokenizer", "tgt_tokenizer", "optimizer", "scheduler", "decode", "bleu", "recipe"},
    "scheduler": {"optimizer"},
    "data": {"tokenizers"},
}
GROUPS = ["callbacks", "data", "decode", "experiment", "metrics", "model", "optimizer"]
GROUPS += ["recipe", "scheduler", "task", "task/teacher_forcing", "tokenizer", "trainer"]
DELTAS = ("experiment", "recipe")  # these change what stands elsewhere
FILES = [(group, path.stem) for group in GROUPS for path in sorted((cli.CONF / group).glob("*.yaml"))]
SIDES = ("tokenizer/source", "tokenizer/target")
FILES += [(side, path.stem) for side in SIDES for path in sorted((cli.CONF / side).iterdir())]


def compose_train(overrides):
    config = cli.compose("train", overrides)
    config.name = "test"  # by default the name of a choice, which only a running job knows
    return config


def choose(group, name):
    if (group, name) == ("data", "multi30k"):
        group = "experiment"  # which is how it is chosen
    plain = [] if group in ("data", "experiment") else ["data=text"]  # the built-in corpus brings an experiment
    return OmegaConf.to_container(compose_train([*plain, f"{group}={name}"]), resolve=True)


def part_of(group, name):
    part = choose(group, name)
    for key in group.split("/"):
        part = part[key]
    return part


COMMANDS = ("train", "evaluate", "compare", "translate", "couplet", "prepare_couplets")
PLAIN = (*(f"{command}.yaml" for command in COMMANDS), "alignment/default.yaml")


def test_no_file_is_forgotten():
    known = {cli.CONF / group / f"{name}.yaml" for group, name in FILES}
    known |= {cli.CONF / name for name in PLAIN}
    assert set(cli.CONF.rglob("*.yaml")) == known


@pytest.mark.parametrize("group, name", FILES)
def test_every_choice_composes(group, name):
    assert choose(group, name)


def nodes(value, path=""):
    """(path, dict) of everything with a _target_."""
    if isinstance(value, dict):
        if "_target_" in value:
            yield path, value
        for key, inner in value.items():
            yield from nodes(inner, f"{path}.{key}" if path else key)


@pytest.mark.parametrize("group, name", [f for f in FILES if f[0] not in ("metrics", *DELTAS)])
def test_yaml_and_signature_say_the_same(group, name):
    for path, node in nodes(part_of(group, name)):
        target = hydra.utils.get_object(node["_target_"])
        if target.__module__.split(".")[0] not in ("data", "model", "tasks"):
            continue
        parameters = inspect.signature(target).parameters
        options = {key for key in node if not key.startswith("_")}
        given = GIVEN.get(group, set()) | {"root", "file", "source_column", "target_column", "texts", "optimizer", "self"}
        assert options <= set(parameters), (path, options - set(parameters))
        missing = {k for k in parameters if k not in options} - given
        assert not missing, (path, missing)


WITH_DEFAULTS = [f for f in FILES if f[0] in ("decode", "scheduler", "task", "task/teacher_forcing", "callbacks")]

MODELS = [("model", "transformer_tiny"), ("model", "rnn_additive"), ("model", "tagger")]


@pytest.mark.parametrize("group, name", [*WITH_DEFAULTS, *MODELS, ("data", "text")])
def test_yaml_and_signature_have_the_same_defaults(group, name):
    for path, node in nodes(part_of(group, name)):
        target = hydra.utils.get_object(node["_target_"])
        if target.__module__.split(".")[0] not in ("data", "model", "tasks"):
            continue
        for key, parameter in inspect.signature(target).parameters.items():
            known = key in node and parameter.default is not inspect.Parameter.empty
            if known and key not in ("seed", "valid_decode", "teacher_forcing") and (group, key) != ("scheduler", "steps"):
                default = list(parameter.default) if isinstance(parameter.default, tuple) else parameter.default
                assert node[key] == default, (path, key)


@pytest.mark.parametrize("name", [name for group, name in FILES if group == "model"])
def test_models_can_be_made(name):
    assert make(choose("model", name)["model"], src_vocabulary=50, tgt_vocabulary=50).project


@pytest.mark.parametrize("group", ["optimizer", "scheduler", "decode", "callbacks", "task/teacher_forcing"])
def test_parts_can_be_made(group):
    for name in (name for g, name in FILES if g == group):
        for _, node in nodes(part_of(group, name)):
            off = "decay" in node and node["decay"] is None  # a moving average that is not wanted is no callback
            assert (make(node) is None) == off  # of optimizers and schedulers a factory: they need the parameters


def test_a_moving_average_is_a_callback_where_it_has_a_decay():
    part = part_of("callbacks", "default")["ema"]
    assert make(part) is None
    assert isinstance(make(part | {"decay": 0.9}), EMA)


def test_a_checkpoint_may_name_every_choice_of_its_parts():
    for group, name in FILES:
        part = {"tokenizer": "data"}.get(group.split("/")[0], group)
        if part in TARGETS and part != "experiment":
            for path, node in nodes(choose(group, name)[group] if "/" not in group else choose(group, name)["tokenizer"]):
                assert node["_target_"] in TARGETS[part], path


def test_every_option_has_a_comment_or_a_place_that_explains_it():
    seen = 0
    for path in cli.CONF.rglob("*.yaml"):
        if "explained in" in path.read_text(encoding="utf-8") or path.parent.name in (*DELTAS, "source", "target"):
            continue
        for key, value, meaning in options_of(path, ""):
            assert meaning or value.startswith("$") or key in ("test_file", "valid_file"), f"{path.name}: {key}"
            seen += 1
    assert seen > 200


def test_transformer_sizes():
    counts = {}
    for name in ("transformer_tiny", "transformer_small", "transformer_base"):
        model = make(choose("model", name)["model"], src_vocabulary=8000, tgt_vocabulary=8000)
        counts[name] = sum(p.numel() for p in model.parameters())
    assert counts["transformer_tiny"] == 2_349_568
    assert 7e6 < counts["transformer_small"] < 8e6 and 47e6 < counts["transformer_base"] < 49e6, counts


RECURRENT = [name for group, name in FILES if group == "model" and name.startswith("rnn_")]


def test_recurrent_models_are_as_large_as_the_transformer_they_are_compared_with():
    assert set(RECURRENT) >= {
        f"rnn_{x}" for x in ("none", "aligned", "dot", "general", "additive", "local_m", "local_p", "hard")
    }
    for name in RECURRENT:
        model = make(choose("model", name)["model"], src_vocabulary=8000, tgt_vocabulary=8000)
        size = sum(p.numel() for p in model.parameters())
        assert abs(size / 2_349_568 - 1) < 0.15, (name, size)


# words, then what is trained with: a recurrent model has its own recipe, under an experiment and with any data
RECIPES = [
    ([], {"optimizer.lr": 0.006, "model.layers": 2}),
    (["model=rnn_dot"], "grammar_recurrent"),
    (["experiment=multi30k", "model=rnn_additive"], "multi30k_recurrent"),
    (["data=tsv", "model=rnn_none"], "recurrent"),
    (["data=tsv", "model=tagger"], "tagger"),
    (["experiment=couplet_classical", "model=tagger"], "tagger"),
    (["experiment=couplet_both", "model=rnn_dot"], "couplets_recurrent"),
    (["data=tsv"], {"optimizer.lr": 0.003, "model.layers": 4}),
    (["model=rnn_dot", "optimizer.lr=0.5"], {"optimizer.lr": 0.5}),
    (["data=tsv", "model=rnn_dot", "optimizer=adamw"], "recurrent"),
    (["recipe=transformer", "model=rnn_dot"], {"optimizer.lr": 0.006, "model.layers": 2}),
]


@pytest.mark.parametrize("words, expected", RECIPES)
def test_every_kind_of_model_has_its_own_recipe(words, expected):
    config = compose_train(words)
    if isinstance(expected, str):
        expected = leaves(OmegaConf.to_container(OmegaConf.load(cli.CONF / "recipe" / f"{expected}.yaml")))
        assert "optimizer.lr" in expected
    for key, value in expected.items():
        assert OmegaConf.select(config, key) == value, key


def leaves(value, path=""):
    if not isinstance(value, dict):
        return {path: value}
    return {k: v for key, inner in value.items() for k, v in leaves(inner, f"{path}.{key}" if path else key).items()}


VALUES = [  # as typed, what it means
    ("data.root=../数据/集", "../数据/集"),
    ("data.root=/a folder/with spaces", "/a folder/with spaces"),
    ("data.root=epoch=3-step=5.ckpt", "epoch=3-step=5.ckpt"),
    ("data.root=it's", "it's"),
    ("data.root=a[1](2){3}.txt", "a[1](2){3}.txt"),
    ("data.root='quoted already'", "quoted already"),
    ("data.root=C:\\back\\slash\\", "C:\\back\\slash\\"),
    ("data.root=plain", "plain"),
    ("data.batch_size=12", 12),
    ("data.drop_duplicates=true", True),
    ("data.max_ratio=null", None),
    ("data.test_file=[a,b]", ["a", "b"]),
]


@pytest.mark.parametrize("word, value", VALUES)
def test_values_that_hydra_cannot_read_are_quoted(word, value):
    key = word.partition("=")[0].removeprefix("data.")
    config = compose_train(["data=text", *cli.readable([word])])
    assert config.data[key] == value


def test_flags_and_sweeps_are_left_alone():
    words = ["-m", "--help", "model=a,b", "seed=1,2", "~x", "seed=range(3)"]
    assert cli.readable(words) == words
