"""Builds corpora: python -m data.prepare couplets out=DIR [overrides]. conf/prepare_couplets.yaml lists what can be set.

The folder gets train.tsv, valid.tsv and test.tsv (columns upper and lower), README.md and account.json, all at once or not
at all. The same options give the same files.
"""

import hashlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from omegaconf import DictConfig, ListConfig, OmegaConf

from data import commands, couplets, files
from data.couplets import ACCOUNT, DYNASTIES, LENGTHS, PACKAGE, SCRIPTS, SPLITS, VERSION, Corpus, Rules
from data.errors import DuetError

CONFIG = "prepare_couplets"
MADE_BY = "python -m data.prepare couplets"
ACCOUNT_FILE = "account.json"


def prepare(out: Path, rules: Rules, *, source: Path | None = None, overwrite: bool = False) -> Corpus:
    """Builds the corpus and puts it into the folder `out`; source None: fetched with npm."""
    out = out.resolve()
    with _told(out):
        check_free(out, overwrite)
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent, ignore_cleanup_errors=True) as folder:
            corpus = couplets.build(source or fetch(Path(folder)), rules)
            made = Path(folder) / "made"
            made.mkdir()  # not the temporary folder itself, which nobody else may read
            write(made, corpus, rules)
            check_free(out, overwrite)
            swap(made, out, Path(folder) / "before")
    return corpus


@contextmanager
def _told(out: Path) -> Iterator[None]:
    """A disk that is full, or no right to write: in one line that names `out` and not what lies beside it for a while."""
    try:
        yield
    except OSError as error:
        raise DuetError(f"cannot write {out}: {error.strerror or error}") from None


# The package


def fetch(folder: Path) -> Path:
    """Downloads the package into a folder."""
    npm = shutil.which("npm")
    if npm is None:
        raise DuetError(f"npm is not installed, and fetches {PACKAGE}@{VERSION}: install it, or give source=FILE.tgz")
    print(f"fetching {PACKAGE}@{VERSION} with npm", flush=True)
    command = [npm, "pack", f"{PACKAGE}@{VERSION}", "--ignore-scripts", "--loglevel=error"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, encoding="utf-8", errors="replace")
    found = sorted(folder.glob("*.tgz"))
    if done.returncode or not found:
        raise DuetError(f"npm could not fetch {PACKAGE}@{VERSION} ({_reason(done.stderr)}): mend it, or give source=FILE.tgz")
    return found[0]


def _reason(log: str) -> str:
    """What npm says went wrong, without its prefixes and its hints."""
    lines = [line.removeprefix("npm ").removeprefix("error ").removeprefix("ERR! ").strip() for line in log.splitlines()]
    return "; ".join(line for line in lines if line and "complete log" not in line)[:200] or "no reason given"


# The folder


def check_free(out: Path, overwrite: bool) -> None:
    """Raises DuetError where something is there that this command did not make, or that it may not replace."""
    if not out.exists():
        return
    if not out.is_dir():
        raise DuetError(f"out={out} is a file: name a folder")
    if not any(out.iterdir()):
        return
    if strange := _strange(out):
        raise DuetError(f"out={out} is not empty, and {strange}: name another folder")
    if not overwrite:
        raise DuetError(f"out={out} holds an earlier build: name another folder, or give overwrite=true")


def _strange(out: Path) -> str | None:
    """What in a folder this command did not write, in words."""
    try:
        account = json.loads((out / ACCOUNT_FILE).read_bytes())
        files = account["files"] if account["made_by"] == MADE_BY else {}
    except (OSError, ValueError, KeyError, TypeError):
        files = {}
    if not files:
        return f"was not made by {MADE_BY}"
    for path in sorted(out.iterdir()):
        if path.name != ACCOUNT_FILE and (path.name not in files or not path.is_file() or _digest(path) != files[path.name]):
            return f"{path.name} is not as {MADE_BY} wrote it"
    return None


def swap(made: Path, out: Path, before: Path) -> None:
    """Puts a finished folder in its place; an earlier one comes back if that fails."""
    if not out.exists():
        made.rename(out)
        return
    out.rename(before)
    try:
        made.rename(out)
    except BaseException:
        before.rename(out)
        raise


def write(folder: Path, corpus: Corpus, rules: Rules) -> None:
    for name, part in corpus.splits.items():
        rows = "".join(f"{couplet.upper}\t{couplet.lower}\n" for couplet in part)
        files.write_text(folder / f"{name}.tsv", f"upper\tlower\n{rows}")
    files.write_text(folder / "README.md", readme(corpus, rules))
    files.write_json(folder / ACCOUNT_FILE, account(folder, corpus, rules))


def account(folder: Path, corpus: Corpus, rules: Rules) -> dict:
    return {
        "made_by": MADE_BY,
        "package": {"name": PACKAGE, "version": corpus.version, "licence": "MIT", "sha256_of_files_read": corpus.digest},
        "software": {"opencc": version("opencc")} if rules.script == "simplified" else {},
        "options": asdict(rules),
        "account": corpus.account,
        "files": {name: _digest(folder / name) for name in (*(f"{name}.tsv" for name in SPLITS), "README.md")},
    }


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


README = """# Couplets of classical regulated verse

The second and third couplets of poems of eight lines, {script}, lines of {length} characters: `upper` is the first line of a
couplet, `lower` the second. No line, and no pair that differs from another by at most one character in each line, stands in two
splits. Each file is in random order.

Made by `{made_by}` from the npm package {package} {version}, which is under the MIT licence; the poems
are in the public domain.

{table}

    python train.py data=couplets data.root=… tokenizer=characters
"""


def readme(corpus: Corpus, rules: Rules) -> str:
    return README.format(
        made_by=MADE_BY,
        package=PACKAGE,
        version=corpus.version or "(of an unknown version)",
        script=rules.script,
        length=" or ".join(map(str, rules.length)),
        table="\n".join(["| count | of |", "| ---: | --- |", *(f"| {count} | {words} |" for count, words in _counts(corpus))]),
    )


def _counts(corpus: Corpus) -> list[tuple[str, str]]:
    return [(f"{corpus.account[name]:,}", words) for name, words in ACCOUNT.items()]


# The command


def main() -> None:
    words = sys.argv[1:]
    if commands.wants_help(words):
        print(__doc__.strip() + "\n\n" + (commands.CONF / f"{CONFIG}.yaml").read_text(encoding="utf-8"))
        return
    named = [word for word in words if "=" not in word]
    if named != ["couplets"]:
        raise DuetError(f"name what to prepare: {MADE_BY} out=DIR; allowed: couplets, not {' '.join(named) or 'nothing'}")
    config = commands.compose(CONFIG, commands.readable([word for word in words if "=" in word]))
    rules = rules_of(config)
    out, source = _path(config, "out"), _path(config, "source")
    if out is None:
        raise DuetError("out is missing: give out=DIR")
    corpus = prepare(out, rules, source=source, overwrite=_truth(config, "overwrite"))
    print("\n".join(f"{count:>9}  {words}" for count, words in _counts(corpus)) + f"\nwritten to {out}")


def rules_of(config: DictConfig) -> Rules:
    """Raises DuetError for the first value that is not allowed."""
    return Rules(
        script=_some(config, "script", SCRIPTS, most=1)[0],
        dynasty=_some(config, "dynasty", DYNASTIES),
        length=_some(config, "length", LENGTHS),
        **{name: _whole(config, name, least) for name, least in {"valid": 1, "test": 1, "seed": 0}.items()},
    )


def _some(config: DictConfig, key: str, allowed: Sequence, most: int | None = None) -> tuple:
    """Those of the allowed values that an option names, alone or in a list, in the order in which they are allowed."""
    value = config[key]
    named = list(value) if isinstance(value, ListConfig) and most is None else [value]
    if not named or any(name not in allowed or isinstance(name, bool) for name in named):
        what = "one of" if most == 1 else "a list of"
        raise DuetError(f"{key} must be {what} {', '.join(map(str, allowed))}, not {_plain(value)!r}")
    return tuple(value for value in allowed if value in named)


def _whole(config: DictConfig, key: str, least: int) -> int:
    if type(config[key]) is not int or config[key] < least:
        raise DuetError(f"{key} must be a whole number, at least {least}, not {_plain(config[key])!r}")
    return config[key]


def _truth(config: DictConfig, key: str) -> bool:
    if type(config[key]) is not bool:
        raise DuetError(f"{key} must be true or false, not {_plain(config[key])!r}")
    return config[key]


def _path(config: DictConfig, key: str) -> Path | None:
    if OmegaConf.is_missing(config, key) or config[key] in (None, ""):
        return None
    if isinstance(config[key], DictConfig | ListConfig):
        raise DuetError(f"{key} must be a path, not {_plain(config[key])!r}")
    return Path(str(config[key])).expanduser()


def _plain(value: object) -> object:
    return OmegaConf.to_container(value) if OmegaConf.is_config(value) else value


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of what clears the temporary folder
    sys.exit(commands.run(main, CONFIG, commands.explain))
