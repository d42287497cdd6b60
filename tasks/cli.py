"""What the commands of `tasks` share beyond `data/commands.py`: Lightning's errors, groups, and the parts of a checkpoint."""

from collections.abc import Callable, Sequence

import omegaconf
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from data import commands
from data.commands import CONF, compose, groups, nearest, readable, walk, wants_help
from data.errors import DuetError
from tasks.quiet import quiet

__all__ = ["CONF", "compose", "readable", "walk", "wants_help"]


def run(main: Callable[[], None], config: str) -> int:
    """`data.commands.run`, with Lightning's errors in words too."""
    return commands.run(main, config, explain)


def explain(error: BaseException, config: str) -> str | None:
    """One line for what a user can mend; None for a fault of ours."""
    if isinstance(error, MisconfigurationException):
        return " ".join(str(error).split())[:300]
    return commands.explain(error, config)


def begin(doc: str, words: Sequence[str], config: str | None = None) -> bool:
    """The beginning of a command: whether there is more to do than to print help, which these words may ask for.

    doc: of the command. config: the file in conf/ that has its options (None: it has none); choices of groups are checked.
    """
    quiet()
    if wants_help(words):
        options = "" if config is None else "\n\n" + (CONF / f"{config}.yaml").read_text(encoding="utf-8")
        print(doc.strip() + options)
        return False
    if config is not None:
        check_choices(words)
    return True


def check_choices(words: Sequence[str]) -> None:
    """What Hydra would pass over, or has no words for, where a group is chosen (model=…).

    A number or null instead of a name; an experiment that is not there, which is optional to Hydra; data that come with an
    experiment of their own, chosen without it.
    """
    chosen = {}
    for word in words:
        group = word.partition("=")[0].lstrip("+~")
        if "=" in word and group in groups():
            override = OverridesParser.create().parse_override(word)
            if isinstance(override.value(), Glob):  # Hydra lists what there is
                continue
            value = list(override.sweep_string_iterator()) if override.is_sweep_override() else override.value()
            chosen[group] = value if isinstance(value, list) else [value]
    for group, names in chosen.items():
        there = sorted(path.stem for path in (CONF / group).glob("*.yaml"))
        if wrong := [name for name in names if not isinstance(name, str)]:
            raise DuetError(f"{group} is chosen by a name, not {wrong[0]!r}; allowed: {', '.join(there)}")
        if group == "experiment" and (unknown := [name for name in names if name not in there]):
            raise DuetError(f"unknown experiment {unknown[0]!r}{nearest(unknown[0], there)}; allowed: {', '.join(there)}")
        if group == "data" and "experiment" not in chosen:
            for name in names:
                if _brings(name):
                    raise DuetError(f"data={name} comes with its experiment: write experiment={name} instead")


def _brings(name: str) -> bool:
    """Whether the experiment of that name chooses the data of that name."""
    path = CONF / "experiment" / f"{name}.yaml"
    return path.is_file() and {"override /data": name} in omegaconf.OmegaConf.load(path).get("defaults", [])


def value_of(key: str, words: Sequence[str], default: str | None = None) -> str:
    """What key=… says on the command line; DuetError where it is missing, and there is no default."""
    for word in reversed(words):  # the last one counts, as with Hydra
        if word.startswith(f"{key}="):
            return str(OverridesParser.create().parse_override(word).value())
    if default is None:
        raise DuetError(f"{key} is missing: give {key}=…")
    return default


def values_of(key: str, words: Sequence[str]) -> list[str]:
    """The same where it may be a list: key=[a,b]."""
    for word in reversed(words):
        if word.startswith(f"{key}="):
            override = OverridesParser.create().parse_override(word)
            if override.is_sweep_override():
                raise DuetError(f"several are a list: write {key}=[{word.partition('=')[2]}]")
            value = override.value()
            names = [str(name) for name in (value if isinstance(value, list) else [value])]
            if names:
                return names
    raise DuetError(f"{key} is missing: give {key}=PATH, or {key}=[PATH,PATH,…]")


def plain(words: Sequence[str], options: dict[str, str | None]) -> tuple[list[str], dict[str, str]]:
    """For a command without a config: its bare words, and the value of each option.

    options: name -> default; None: it has to be given. DuetError for an unknown one, or a missing one.
    """
    bare = [word for word in words if "=" not in word]
    given = {word.partition("=")[0]: word for word in words if "=" in word}  # the last one counts
    if unknown := sorted(given.keys() - options.keys() - {"debug"}):
        raise DuetError(f"unknown option {unknown[0]!r}{nearest(unknown[0], list(options))}; allowed: {', '.join(options)}")
    if missing := [name for name, default in options.items() if default is None and name not in given]:
        raise DuetError(f"{missing[0]} is missing: give {missing[0]}=…")
    return bare, {name: value_of(name, words, default) for name, default in options.items()}


def offer(config: dict) -> None:
    """Makes the parts of a checkpoint's config choices of their groups: data=checkpoint, decode=checkpoint, …"""
    for group in ("data", "decode", "metrics"):
        ConfigStore.instance().store(group=group, name="checkpoint", node=config[group])
