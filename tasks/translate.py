"""Translates lines: python -m tasks.translate ckpt=PATH [overrides] < in > out. conf/translate.yaml lists what can be set.

One line comes out for each that goes in, in order, a blank one for a blank one. With a terminal for stdin it asks for lines.
"""

from tasks import cli  # isort: skip  # first: `tasks` sets what torch reads when it is loaded

import itertools
import json
import math
import sys
from collections.abc import Sequence
from typing import NamedTuple

from omegaconf import DictConfig, OmegaConf
from tqdm import tqdm

from data.errors import DuetError
from data.files import digest, file_digest
from model.base import attention_shapes, least
from tasks import alignment, terminal
from tasks.allocator import give_memory_back
from tasks.build import Translation, Translator
from tasks.decoding import Decode
from tasks.lines import HEAD, Output, begun, lines_of, piped, terminal_asks, typed, windows
from tasks.sentences import joined, sentences
from tasks.using import check_names, use

PART = 1_000_003  # between the places of two sentences of one line: no line of a file of that length has the same


class Line(NamedTuple):
    """A line of the input, and the parts that it is translated in: itself, or its sentences where it is too long."""

    number: int  # from 1
    text: str
    parts: list[str]
    cut: bool  # whether it has more tokens than are translated


class Job(NamedTuple):
    """What is done with every line."""

    model: Translator
    decode: Decode
    config: DictConfig
    limit: int  # tokens of a source
    ckpts: list[str]


# Reading


def prepared(job: Job, number: int, text: str) -> Line:
    """A line, cut into what the model can take."""
    length = len(job.model.src_tokenizer.encode(text)) if text.strip() else 0
    if length <= job.limit:
        return Line(number, text, [text], False)
    if not job.config.split_long:
        return Line(number, text, [text], True)
    parts = sentences(text, lambda part: len(job.model.src_tokenizer.encode(part)) <= job.limit)
    return Line(number, text, parts, any(len(job.model.src_tokenizer.encode(part)) > job.limit for part in parts))


# Translating


def translated(job: Job, lines: Sequence[Line]) -> list[str]:
    """What is written for each line."""
    flat = [part for line in lines for part in line.parts]
    starts = list(itertools.accumulate((len(line.parts) for line in lines), initial=0))
    places = [line.number - 1 + part * PART for line in lines for part in range(len(line.parts))]
    found = search(job, flat, places)
    write = FORMATS[job.config.format]
    return [write(job, line, found[begin:end]) for line, begin, end in zip(lines, starts, starts[1:])]


def search(job: Job, texts: Sequence[str], places: Sequence[int]) -> list[list[Translation]]:
    """Every text's hypotheses. Sources are cut at the limit. places: on which random draws depend."""
    return job.model.search(texts, decode=job.decode, batch_size=job.config.batch_size, places=places, limit=job.limit)


def as_text(job: Job, line: Line, found: list[list[Translation]]) -> str:
    """The best hypothesis; of a line that was split those of its sentences."""
    return joined(part[0].text for part in found)


def as_json(job: Job, line: Line, found: list[list[Translation]]) -> str:
    """One line of JSON: {line, source, truncated, hypotheses} and, where a search gave up rules, given_up.

    hypotheses: none where none was found, or not of all sentences; of a line that was split the best of each sentence, joined.
    Their log-probabilities add up; what each was ranked by does not.
    """
    if any(math.isinf(part[0].score) for part in found):
        hypotheses = []
    elif len(found) == 1:
        hypotheses = [of_hypothesis(hypothesis) for hypothesis in found[0]]
    else:
        best = [of_hypothesis(part[0]) for part in found]
        tokens = [token for part in best for token in part["tokens"]]
        log_prob = round(sum(part["log_prob"] for part in best), 5)
        hypotheses = [{"text": joined(part["text"] for part in best), "log_prob": log_prob, "tokens": tokens}]
    if job.config.align and len(found) == 1:
        for entry, hypothesis in zip(hypotheses, found[0]):
            entry["alignment"] = alignment.pharaoh(alignment.of_output(job.model, line.parts[0], hypothesis.ids, job.limit))
    record = {"line": line.number, "source": line.text, "truncated": line.cut, "hypotheses": hypotheses}
    given_up = dict.fromkeys(name for part in found for name in part[0].given_up)
    return json.dumps(record | ({"given_up": list(given_up)} if given_up else {}), ensure_ascii=False)


def of_hypothesis(hypothesis: Translation) -> dict:
    tokens = [[piece, round(value, 5)] for piece, value in zip(hypothesis.pieces, hypothesis.token_log_probs)]
    numbers = {"score": round(hypothesis.score, 5), "log_prob": round(hypothesis.log_prob, 5)}
    return {"text": hypothesis.text, **numbers, "tokens": tokens}


FORMATS = {"text": as_text, "json": as_json}


# The prompt

HELP = (
    "a line is translated; then :attention shows where the model looked, :best all hypotheses, :next the likeliest first\n"
    "tokens; :quit ends"
)


Last = tuple[Line, list[list[Translation]]]  # a line, and the hypotheses of its parts


def prompt(job: Job) -> None:
    """Asks for lines."""

    def on_line(text: str) -> tuple[str, Last]:
        line = prepared(job, 1, text)
        found = search(job, line.parts, [part * PART for part in range(len(line.parts))])
        cut = f"\n(the line is longer than {job.limit} tokens and was cut there)" if line.cut else ""
        return as_text(job, line, found) + cut, (line, found)

    terminal.converse(HELP, on_line, lambda command, last: answer(job, command, last))


def answer(job: Job, command: str, last: Last | None) -> str:
    """What a command prints."""
    if command not in COMMANDS:
        return HELP
    if last is None:
        return "nothing has been translated yet"
    line, found = last
    return "\n".join(COMMANDS[command](job, *part) for part in zip(line.parts, found))


def attention(job: Job, source: str, found: list[Translation]) -> str:
    return terminal.attention(job.model, source, found[0].ids, job.limit)


def best(job: Job, source: str, found: list[Translation]) -> str:
    return "\n".join(f"{hypothesis.score:8.3f}  {hypothesis.text}" for hypothesis in found)


def likeliest(job: Job, source: str, found: list[Translation]) -> str:
    tokens = job.model.alternatives(source, limit=job.limit)
    return "\n".join(f"{probability:8.3f}  {piece}" for piece, probability in tokens)


COMMANDS = {"attention": attention, "best": best, "next": likeliest}  # of the prompt: what a text and its answer give


# The command


def run(job: Job) -> None:
    """From the input to the output."""
    config = job.config
    (first, lines), cut, first_cut = begun(lines_of(config), 1 if config.input is None else HEAD), 0, None
    origin = None if config.output is None else origin_of(job, first)
    output = Output(config.output, resume=config.resume, source=config.input, origin=origin)
    number, begin = 0, output.done
    with tqdm(disable=not (config.progress and sys.stderr.isatty()), initial=begin, unit=" lines", leave=False) as bar:
        for window in windows(lines, 1 if typed(config) else config.window):
            if number + len(window) <= begin:  # the others are those of an uninterrupted run, and so the batches in them
                number += len(window)
                continue
            batch = [prepared(job, number + place, text) for place, text in enumerate(window, 1)]
            output.write(translated(job, batch)[max(0, begin - number) :])
            numbers = [line.number for line in batch if line.cut and line.number > begin]
            cut, first_cut = cut + len(numbers), first_cut or next(iter(numbers), None)
            number += len(window)
            bar.update(number - max(begin, number - len(window)))
            give_memory_back()
    if number < begin:
        raise DuetError(f"{output.part} has {begin} lines, the input only {number}: it is of another one")
    output.close()
    if cut:
        many = f"{cut} of {number - begin} lines are longer than {job.limit} tokens and cut there"
        advice = "" if config.split_long else "; split_long=true translates them sentence by sentence"
        print(f"warning: {many}, the first is line {first_cut}{advice}", file=sys.stderr)


def origin_of(job: Job, first: Sequence[str]) -> dict:
    """All that the lines of an output depend on. first: lines of the input."""
    config = job.config
    own = {name: config[name] for name in ("ensemble", "format", "align", "split_long")}
    head = {"first lines of the input": digest(first)} if config.input is not None else {}  # of stdin one line has been read
    return own | head | {
        "ckpt": [file_digest(path) for path in job.ckpts],
        "decode": OmegaConf.to_container(config.decode, resolve=True),
        "max_length": job.limit,
        "input": digest(first[:1]),
    }


def check(config: DictConfig) -> None:
    check_names(config, {"format": FORMATS})
    if config.align and config.format != "json":
        raise DuetError("align=true needs format=json")


def job_of(words: Sequence[str]) -> Job:
    """Loads what the words name. Raises DuetError for what a user can mend."""
    model, config, decode = use("translate", words, check, kinds={"resume": bool})
    if config.align and "cross" not in attention_shapes(model.model):
        raise DuetError(alignment.NO_ATTENTION)
    limit = least([config.max_length or model.config["data"].get("max_length", 256), model.max_source])
    return Job(model, decode, config, limit, cli.values_of("ckpt", words))


def main() -> None:
    words = cli.readable(sys.argv[1:])
    if not cli.begin(__doc__, words, "translate"):
        return
    job = job_of(words)
    with piped():
        if terminal_asks(job.config):
            prompt(job)
        else:
            run(job)


if __name__ == "__main__":
    sys.exit(cli.run(main, "translate"))
