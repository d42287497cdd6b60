"""What the commands of `data` and of `tasks` share: reading overrides, and errors in words."""

import difflib
import errno
import functools
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import hydra
import omegaconf
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig

from data.errors import DuetError

CONF = Path(__file__).resolve().parents[1] / "conf"


def run(main: Callable[[], None], config: str, explain: Callable[[BaseException, str], str | None]) -> int:
    """Calls main() and returns the exit code: 0; 2 after a user's mistake, told in one line; 130 after Ctrl-C.

    config: the name of the command's config, to find the nearest real key for one that does not exist.
    explain: `explain` below, or one that knows more kinds of errors.
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


OF_PATHS = {  # what is wrong with a path that a user has given
    errno.EACCES, errno.EEXIST, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR, errno.EPERM,
    errno.EROFS,
}  # fmt: skip


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
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"the disk is full: {error.filename or error}"
    if isinstance(error, OSError) and error.errno in OF_PATHS:
        return f"{error.strerror}: {error.filename}"
    return None


def _debug() -> bool:
    return any(re.fullmatch(r"\+*debug=(true|True|1)", word) for word in sys.argv[1:])


@functools.cache
def groups() -> set[str]:
    """All that can be chosen: model, tokenizer/source, …"""
    return {path.parent.relative_to(CONF).as_posix() for path in CONF.rglob("*.yaml")} - {"."}


def _missing(error: MissingConfigException) -> str:
    if not error.missing_cfg_file:
        return " ".join(str(error).split())[:300]
    group, _, name = error.missing_cfg_file.rpartition("/")
    choices = error.options or []
    return f"unknown {group or 'config'} {name!r}{nearest(name, choices)}; allowed: {', '.join(choices)}"


def _composition(error: Exception, config: str) -> str:
    text = " ".join(str(error).split())
    if found := re.search(r"Could not (?:override|append|delete) '?([^'.\s][^'\s]*?)'?\.? ", text + " "):
        key = found[1]
        if elsewhere := _elsewhere(key):
            return f"unknown option {key!r}: {elsewhere} has it, which is not chosen"
        return f"unknown option {key!r}{nearest(key, list(_keys(config)))}; --help and README.md list all"
    if found := re.search(r"Could not override '(\S+)'. No match in the defaults list", text):
        return f"unknown group {found[1]!r}; --help and README.md list all"
    if cause := error.__cause__:
        text = " ".join(str(cause).split()) or text
    return text[:300]


def _elsewhere(key: str) -> str:
    """Which choices of its group have an option: "decode=beam or decode=couplet"; "" where none has."""
    group, _, name = key.rpartition(".")
    if group.replace(".", "/") not in groups():
        return ""
    paths = sorted((CONF / group.replace(".", "/")).glob("*.yaml"))
    return " or ".join(f"{group.replace('.', '/')}={path.stem}" for path in paths if name in omegaconf.OmegaConf.load(path))


def nearest(word: str, choices: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, choices, n=1, cutoff=0.5)
    return f", did you mean {near[0]!r}?" if near else ""


def _keys(config: str) -> Iterator[str]:
    """Every option of a command's default config, with its dots."""
    for words in ([word for word in sys.argv[1:] if word.partition("=")[0] in groups()], []):
        try:
            yield from walk(compose(config, words), "")
            return
        except Exception:  # an unknown group choice: fall back to the defaults
            continue


def walk(node: DictConfig, prefix: str) -> Iterator[str]:
    for key in node:
        yield prefix + str(key)
        child = node._get_node(key)
        if isinstance(child, DictConfig) and not child._is_none() and not child._is_interpolation():
            yield from walk(child, f"{prefix}{key}.")


def compose(config: str, overrides: Sequence[str]) -> DictConfig:
    """The config of that name in conf/, with overrides."""
    from hydra.core.global_hydra import GlobalHydra

    if GlobalHydra.instance().is_initialized():
        GlobalHydra.instance().clear()
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        return hydra.compose(config, list(overrides))


def readable(words: Sequence[str], *, lists: Sequence[str] = ()) -> list[str]:
    """Overrides whose values Hydra's grammar can read: it knows no Chinese, no second `=`, no bracket in a path.

    lists: options that are lists of texts, so that brackets are those of the list.
    """
    return [_readable(word, lists) if "=" in word and not word.startswith("-") else word for word in words]


def _readable(word: str, lists: Sequence[str]) -> str:
    key, _, value = word.partition("=")
    if key in lists and value[:1] == "[" and value[-1:] == "]":
        texts = [_quoted(f"{key}={text.strip()}").partition("=")[2] for text in value[1:-1].split(",") if text.strip()]
        return f"{key}=[{','.join(texts)}]"
    return _quoted(word)


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


def wants_help(words: Sequence[str]) -> bool:
    return bool({"-h", "--help", "--hydra-help"} & set(words))
