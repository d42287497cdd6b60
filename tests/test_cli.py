"""How every command begins: --help, and choices of groups."""

import importlib

import pytest

from tasks import cli

CONFIGS = {"evaluate": "evaluate", "tasks.compare": "compare", "tasks.couplet": "couplet", "tasks.translate": "translate"}
PLAIN = ["docs.couplets", "docs.decoding", "docs.pictures", "tasks.average", "tasks.options"]


@pytest.mark.parametrize("name", [*CONFIGS, *PLAIN])
def test_help_is_the_docstring_and_the_options(shell, name):
    module = importlib.import_module(name)
    options = (cli.CONF / f"{CONFIGS[name]}.yaml").read_text(encoding="utf-8") if name in CONFIGS else ""
    told = "\n\n".join(filter(None, [module.__doc__.strip(), options])) + "\n"
    for words in (["-h"], ["--help", "ckpt=nowhere"]):
        done = shell.run(module, CONFIGS.get(name, "evaluate"), words)
        assert (done.code, done.out, done.err) == (0, told, "")


@pytest.mark.parametrize("name", CONFIGS)
def test_a_group_is_chosen_by_a_name(shell, name):
    done = shell.run(importlib.import_module(name), CONFIGS[name], ["runs/a", "decode=5"])
    assert done.code == 2 and done.err.startswith("error: decode is chosen by a name, not 5; allowed: beam, couplet"), done.err
    assert done.err.count("\n") == 1


def test_a_sweep_may_name_choices_by_a_pattern():
    cli.check_choices(["model=glob(rnn_*)", "model=glob([rnn_*,transformer_*],exclude=*base)"])
