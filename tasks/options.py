"""The table of all options, made from conf/: python -m tasks.options prints it, and write=true puts it into README.md."""

import re
import sys
from pathlib import Path

from data.errors import DuetError
from tasks import cli

BEGIN, END = "<!-- options: python -m tasks.options write=true -->", "<!-- end of options -->"
README = cli.CONF.parent / "README.md"
FILES = {  # file -> where its options stand on the command line
    "train.yaml": "",
    "data/text.yaml": "data.",
    "tokenizer/sentencepiece.yaml": "tokenizer.",
    "model/transformer_tiny.yaml": "model.",
    "model/rnn_additive.yaml": "model.",
    "model/tagger.yaml": "model.",
    "task/seq2seq.yaml": "task.",
    "task/teacher_forcing/constant.yaml": "task.teacher_forcing.",
    "task/teacher_forcing/linear.yaml": "task.teacher_forcing.",
    "task/teacher_forcing/inverse_sigmoid.yaml": "task.teacher_forcing.",
    "optimizer/adam.yaml": "optimizer.",
    "scheduler/inverse_sqrt.yaml": "scheduler.",
    "scheduler/cosine.yaml": "scheduler.",
    "decode/beam.yaml": "decode.",
    "decode/sample.yaml": "decode.",
    "metrics/default.yaml": "metrics.",
    "callbacks/default.yaml": "callbacks.",
    "trainer/default.yaml": "trainer.",
    "evaluate.yaml": "",
    "translate.yaml": "",
    "couplet.yaml": "",
    "decode/couplet.yaml": "decode.",
    "alignment/default.yaml": "alignment.",
    "compare.yaml": "",
    "prepare_couplets.yaml": "",
}
LINE = re.compile(r"^(?P<indent> *)(?P<key>\w+):\s*(?P<value>[^#]*?)\s*(?:# *(?P<note>.*))?$")


def table() -> str:
    """Markdown: one table a file."""
    return "\n".join(_section(name, prefix) for name, prefix in FILES.items())


def _section(name: str, prefix: str) -> str:
    rows = [f"| `{key}` | `{value}` | {note} |" for key, value, note in options_of(cli.CONF / name, prefix)]
    return "\n".join([f"`conf/{name}`{_choices(name)}\n", "| option | default | meaning |", "| --- | --- | --- |", *rows, ""])


def _choices(name: str) -> str:
    folder = (cli.CONF / name).parent
    if folder == cli.CONF:
        return ""
    group = folder.relative_to(cli.CONF).as_posix()
    return f" (`{group}=` " + ", ".join(f"`{path.stem}`" for path in sorted(folder.glob("*.yaml"))) + ")"


def options_of(path: Path, prefix: str):
    """(key with its dots, default, comment) of each option of a YAML file."""
    parents: list[tuple[int, str]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        found = LINE.match(line)
        if not found or found["key"] in ("defaults", "hydra"):
            if line.startswith("hydra:"):
                return
            continue
        indent, key, value = len(found["indent"]), found["key"], found["value"]
        parents = [(depth, name) for depth, name in parents if depth < indent]
        if not value:
            parents.append((indent, key))
        elif not key.startswith("_") and not value.startswith("${tokenizer"):
            dotted = ".".join([name for _, name in parents] + [key])
            yield prefix + dotted, value.replace("|", "\\|"), (found["note"] or "").replace("|", "\\|")


def main() -> None:
    words = sys.argv[1:]
    if not cli.begin(__doc__, words):
        return
    bare, options = cli.plain(words, {"write": "false"})
    if bare or options["write"].lower() not in ("true", "false"):
        raise DuetError(f"write must be true or false, not {(bare or [options['write']])[0]!r}")
    if options["write"].lower() == "false":
        print(table())
        return
    text = README.read_text(encoding="utf-8")
    before, after = text[: text.index(BEGIN)], text[text.index(END) :]
    README.write_text(f"{before}{BEGIN}\n\n{table()}\n{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(cli.run(main, "train"))
