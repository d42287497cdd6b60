"""Translates lines: python -m tasks.translate ckpt=PATH [overrides] < in > out. conf/translate.yaml lists what can be set.

One line comes out for each that goes in, in order, a blank one for a blank one. With a terminal for stdin it asks for lines.
"""

from tasks import cli  # isort: skip  # first: `tasks` sets what torch reads when it is loaded

import itertools
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from omegaconf import DictConfig
from tqdm import tqdm

from data.errors import DuetError
from model.base import attention_shapes, least
from tasks import alignment, terminal
from tasks.allocator import give_memory_back
from tasks.build import Translation, Translator
from tasks.decoding import Decode
from tasks.lines import Output, begun, lines_of, piped, terminal_asks, windows
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


ENDS = re.compile(r"(?<=[.!?…][\"'”’»)\]])\s+|(?<=[.!?…])\s+|(?<=[。！？；][”’」』）])|(?<=[。！？；])(?![”’」』）])")


def sentences(text: str, fits: Callable[[str], bool]) -> list[str]:
    """A text cut at the ends of sentences, into as few parts as fit; a sentence that does not fit is a part of its own."""
    parts: list[str] = []
    begin = 0
    ends = [match.end() for match in ENDS.finditer(text)] + [len(text)]
    last = 0
    for end in ends:
        if last > begin and not fits(text[begin:end]):
            parts.append(text[begin:last])
            begin = last
        last = end
    return [part.strip() for part in [*parts, text[begin:]] if part.strip()]


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


def joined(texts: Iterable[str]) -> str:
    """Sentences of one line; between Chinese ones stands no blank."""
    whole = ""
    for text in texts:
        chinese = whole and "\u3000" <= whole[-1] <= "\uffef"
        whole = whole + ("" if not whole or not text or chinese else " ") + text
    return whole


def as_text(job: Job, line: Line, found: list[list[Translation]]) -> str:
    """The best hypothesis; of a line that was split those of its sentences."""
    return joined(part[0].text for part in found)


def as_json(job: Job, line: Line, found: list[list[Translation]]) -> str:
    """One line of JSON: {line, source, truncated, hypotheses}; of a line that was split the best of each sentence, joined.
    Their log-probabilities add up; what each was ranked by does not.
    """
    if len(found) == 1:
        hypotheses = [of_hypothesis(hypothesis) for hypothesis in found[0]]
    else:
        best = [of_hypothesis(part[0]) for part in found]
        tokens = [token for part in best for token in part["tokens"]]
        log_prob = round(sum(part["log_prob"] for part in best), 5)
        hypotheses = [{"text": joined(part["text"] for part in best), "log_prob": log_prob, "tokens": tokens}]
    if job.config.align and len(found) == 1:
        for entry, hypothesis in zip(hypotheses, found[0]):
            entry["alignment"] = alignment.pharaoh(alignment.of_output(job.model, line.text, hypothesis.ids, job.limit))
    record = {"line": line.number, "source": line.text, "truncated": line.cut, "hypotheses": hypotheses}
    return json.dumps(record, ensure_ascii=False)


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


def prompt(model: Translator, search: Callable[[str], list[Translation]], limit: int) -> None:
    """Asks for lines. search: a line's hypotheses, the best first. limit: tokens of a source."""

    def on_line(text: str) -> tuple[str, tuple[str, list[Translation]]]:
        found, length = search(text), len(model.src_tokenizer.encode(text))
        cut = f"\n(the line has {length} tokens and was cut after {limit})" if length > limit else ""
        return found[0].text + cut, (text, found)

    terminal.converse(HELP, on_line, lambda command, last: answer(model, command, last, limit))


def answer(model: Translator, command: str, last: tuple[str, list[Translation]] | None, limit: int) -> str:
    """What a command prints."""
    if command not in COMMANDS:
        return HELP
    return COMMANDS[command](model, *last, limit) if last else "nothing has been translated yet"


def attention(model: Translator, source: str, found: list[Translation], limit: int) -> str:
    return terminal.attention(model, source, found[0].ids, limit)


def best(model: Translator, source: str, found: list[Translation], limit: int) -> str:
    return "\n".join(f"{hypothesis.score:8.3f}  {hypothesis.text}" for hypothesis in found)


def likeliest(model: Translator, source: str, found: list[Translation], limit: int) -> str:
    return "\n".join(f"{probability:8.3f}  {piece}" for piece, probability in model.alternatives(source))


COMMANDS = {"attention": attention, "best": best, "next": likeliest}  # of the prompt: what the last line and its answer give


# The command


def run(job: Job) -> None:
    """From the input to the output."""
    config = job.config
    lines, cut, first_cut = begun(lines_of(config)), 0, None
    output = Output(config.output, resume=config.resume, source=config.input)
    skipped = sum(1 for _ in itertools.islice(lines, output.done))
    if skipped < output.done:
        raise DuetError(f"{output.part} has {output.done} lines, the input only {skipped}: it is of another one")
    number = output.done
    with tqdm(disable=not (config.progress and sys.stderr.isatty()), initial=number, unit=" lines", leave=False) as bar:
        for window in windows(lines, config.window):
            batch = [prepared(job, number + place, text) for place, text in enumerate(window, 1)]
            output.write(translated(job, batch))
            numbers = [line.number for line in batch if line.cut]
            cut, first_cut = cut + len(numbers), first_cut or next(iter(numbers), None)
            number += len(window)
            bar.update(len(window))
            give_memory_back()
    output.close()
    if cut:
        many = f"{cut} of {number - output.done} lines are longer than {job.limit} tokens and cut there"
        advice = "" if config.split_long else "; split_long=true translates them sentence by sentence"
        print(f"warning: {many}, the first is line {first_cut}{advice}", file=sys.stderr)


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
    return Job(model, decode, config, limit)


def main() -> None:
    words = cli.readable(sys.argv[1:])
    if not cli.begin(__doc__, words, "translate"):
        return
    job = job_of(words)
    with piped():
        if terminal_asks(job.config):
            prompt(job.model, lambda text: search(job, [text], [0])[0], job.limit)
        else:
            run(job)


if __name__ == "__main__":
    sys.exit(cli.run(main, "translate"))
