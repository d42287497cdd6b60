"""What every command shares: reading overrides, and errors in words."""

import difflib
import functools
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import hydra
import omegaconf
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from omegaconf import DictConfig

from data.errors import DuetError

CONF = Path(__file__).resolve().parents[1] / "conf"


def run(main: Callable[[], None], config: str) -> int:
    """Calls main() and returns the exit code: 0; 2 after a user's mistake, told in one line; 130 after Ctrl-C.

    config: the name of the command's config, to find the nearest real key for one that does not exist.
    """
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra raises, instead of printing and ending with 1
    try:
        main()
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        message = explain(error, config)
        if message is None or _debug():
            traceback.print_exc()
        if message is None:
            return 1
        print(f"error: {message}", file=sys.stderr)
        return 2


def explain(error: BaseException, config: str) -> str | None:
    """One line for what a user can mend; None for a fault of ours."""
    if isinstance(error, DuetError):
        return str(error)
    if isinstance(error, MissingConfigException):
        return _missing(error)
    if isinstance(error, OverrideParseException):
        return f"cannot read the override {error.override!r}: write key=value, a value with special characters in quotes"
    if isinstance(error, ConfigCompositionException | omegaconf.errors.OmegaConfBaseException | HydraException):
        return _composition(error, config)
    if isinstance(error, MisconfigurationException):
        return " ".join(str(error).split())[:300]
    if isinstance(error, PermissionError | FileNotFoundError | NotADirectoryError | IsADirectoryError | FileExistsError):
        return f"{error.strerror}: {error.filename}"
    if isinstance(error, OSError) and error.errno == 28:
        return f"the disk is full: {error.filename or error}"
    return None


def _debug() -> bool:
    return any(re.fullmatch(r"\+*debug=(true|True|1)", word) for word in sys.argv[1:])


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
            value = list(override.sweep_string_iterator()) if override.is_sweep_override() else override.value()
            chosen[group] = value if isinstance(value, list) else [value]
    for group, names in chosen.items():
        there = sorted(path.stem for path in (CONF / group).glob("*.yaml"))
        if wrong := [name for name in names if not isinstance(name, str)]:
            raise DuetError(f"{group} is chosen by a name, not {wrong[0]!r}; allowed: {', '.join(there)}")
        if group == "experiment" and (unknown := [name for name in names if name not in there]):
            raise DuetError(f"unknown experiment {unknown[0]!r}{_nearest(unknown[0], there)}; allowed: {', '.join(there)}")
        if group == "data" and "experiment" not in chosen:
            for name in names:
                if _brings(name):
                    raise DuetError(f"data={name} comes with its experiment: write experiment={name} instead")


@functools.cache
def groups() -> set[str]:
    """All that can be chosen: model, tokenizer/source, …"""
    return {path.parent.relative_to(CONF).as_posix() for path in CONF.rglob("*.yaml")} - {"."}


def _brings(name: str) -> bool:
    """Whether the experiment of that name chooses the data of that name."""
    path = CONF / "experiment" / f"{name}.yaml"
    return path.is_file() and {"override /data": name} in omegaconf.OmegaConf.load(path).get("defaults", [])


def _missing(error: MissingConfigException) -> str:
    if not error.missing_cfg_file:
        return " ".join(str(error).split())[:300]
    group, _, name = error.missing_cfg_file.rpartition("/")
    choices = error.options or []
    return f"unknown {group or 'config'} {name!r}{_nearest(name, choices)}; allowed: {', '.join(choices)}"


def _composition(error: Exception, config: str) -> str:
    text = " ".join(str(error).split())
    if found := re.search(r"Could not (?:override|append|delete) '?([^'.\s][^'\s]*?)'?\.? ", text + " "):
        key = found[1]
        return f"unknown option {key!r}{_nearest(key, list(_keys(config)))}; --help lists all"
    if found := re.search(r"Could not override '(\S+)'. No match in the defaults list", text):
        return f"unknown group {found[1]!r}; --help lists all"
    if cause := error.__cause__:
        text = " ".join(str(cause).split()) or text
    return text[:300]


def _nearest(word: str, choices: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, choices, n=1, cutoff=0.5)
    return f", did you mean {near[0]!r}?" if near else ""


def _keys(config: str) -> Iterator[str]:
    """Every option of a command's default config, with its dots."""
    for words in ([word for word in sys.argv[1:] if word.partition("=")[0] in groups()], []):
        try:
            yield from _walk(compose(config, words), "")
            return
        except Exception:  # an unknown group choice: fall back to the defaults
            continue


def _walk(node: DictConfig, prefix: str) -> Iterator[str]:
    for key in node:
        yield prefix + str(key)
        child = node._get_node(key)
        if isinstance(child, DictConfig) and not child._is_none() and not child._is_interpolation():
            yield from _walk(child, f"{prefix}{key}.")


def compose(config: str, overrides: Sequence[str]) -> DictConfig:
    """The config of that name in conf/, with overrides."""
    from hydra.core.global_hydra import GlobalHydra

    if GlobalHydra.instance().is_initialized():
        GlobalHydra.instance().clear()
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        return hydra.compose(config, list(overrides))


def readable(words: Sequence[str]) -> list[str]:
    """Overrides whose values Hydra's grammar can read: it knows no Chinese, no second `=`, no bracket in a path."""
    return [_quoted(word) if "=" in word and not word.startswith("-") else word for word in words]


def _quoted(word: str) -> str:
    key, _, value = word.partition("=")
    try:
        parsed = OverridesParser.create().parse_override(word)
        if not isinstance(parsed.value(), str) or parsed.value() == value or value[:1] in "'\"":
            return word
    except Exception:  # the grammar's errors have no common base class
        pass
    escaped = re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + (r"\'" if m[2] else ""), value)
    return f"{key}='{escaped}'"


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
            value = OverridesParser.create().parse_override(word).value()
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
        raise DuetError(f"unknown option {unknown[0]!r}{_nearest(unknown[0], list(options))}; allowed: {', '.join(options)}")
    if missing := [name for name, default in options.items() if default is None and name not in given]:
        raise DuetError(f"{missing[0]} is missing: give {missing[0]}=…")
    return bare, {name: value_of(name, words, default) for name, default in options.items()}


def wants_help(words: Sequence[str]) -> bool:
    return bool({"-h", "--help", "--hydra-help"} & set(words))


def offer(config: dict) -> None:
    """Makes the parts of a checkpoint's config choices of their groups: data=checkpoint, decode=checkpoint, …"""
    for group in ("data", "decode", "metrics"):
        ConfigStore.instance().store(group=group, name="checkpoint", node=config[group])


def write_text(path: Path, text: str) -> None:
    """All at once: a reader never sees half a file."""
    unfinished = path.with_name(f".{path.name}.part")
    unfinished.write_text(text, encoding="utf-8", newline="\n")
    os.replace(unfinished, path)


def write_json(path: Path, values: dict) -> None:
    write_text(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")
