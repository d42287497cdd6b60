"""Scores a checkpoint: python evaluate.py ckpt=PATH [overrides]. conf/evaluate.yaml lists what can be set."""

from tasks import cli  # isort: skip  # first: `tasks` sets what torch reads when it is loaded

import os
import sys
import time
from pathlib import Path

import torch
from omegaconf import DictConfig, OmegaConf

from data.batching import Batch
from data.errors import DuetError
from data.module import PairData
from data.sources import Pair, TwoFiles
from tasks import heatmap
from tasks.build import Translator, build_data, load, make, respect_limits
from tasks.cli import write_json
from tasks.decoding import Decode
from tasks.metrics import scores
from tasks.quiet import quiet
from tasks.samples import Look
from tasks.seq2seq import translate_batch


def evaluate(config: DictConfig, model: Translator) -> dict:
    """Translates and scores one split; writes metrics.json, hypotheses.txt and, if asked for, heatmaps."""
    check(config)
    split, data = make_split(config, model)
    decode = make(OmegaConf.to_container(config.decode, resolve=True))
    references = data.references(split)
    out = output_folder(config, split)
    hypotheses, seconds, tokens = translate_split(model, data, split, decode, config.batch_size, config.device)
    bleu = OmegaConf.to_container(config.metrics.bleu, resolve=True)
    result = scores(hypotheses, references, **bleu) | {
        "seconds": seconds,
        "sentences_per_second": len(hypotheses) / seconds,
        "tokens_per_second": tokens / seconds,
        "split": split,
        "decode": OmegaConf.to_container(config.decode, resolve=True),
        "ckpt": str(config.ckpt),
    }
    write_json(out / "metrics.json", result)
    write_lines(out / "hypotheses.txt", hypotheses)
    draw_heatmaps(config, model, data.sources(split)[: config.heatmaps], decode, out)
    report(result, out)
    return result


def check(config: DictConfig) -> None:
    if config.batch_size < 1:
        raise DuetError(f"batch_size is {config.batch_size}: it must be at least 1")
    if config.device not in ("cpu", "cuda") or (config.device == "cuda" and not torch.cuda.is_available()):
        allowed = "cpu, cuda" if torch.cuda.is_available() else "cpu (torch sees no GPU here)"
        raise DuetError(f"device is {config.device!r}: allowed is {allowed}")
    if config.limit is not None and config.limit < 1:
        raise DuetError(f"limit is {config.limit}: it must be at least 1, or null")


def make_split(config: DictConfig, model: Translator) -> tuple[str, PairData]:
    """What is to be scored, and the data module that has it."""
    if (config.source is None) != (config.reference is None):
        raise DuetError("source and reference go together: give both files, or neither and a split")
    plain = OmegaConf.to_container(config, resolve=True)
    plain["data"]["cache_dir"] = None
    data = build_data(plain, tokenizers=(model.src_tokenizer, model.tgt_tokenizer))
    respect_limits(data, model.model)
    split = str(config.split)
    if config.source is not None:
        split = Path(str(config.source)).name  # a file may be called 1
        data.add_split(split, TwoFiles(str(config.source), str(config.reference)))
    if config.limit is not None:
        pairs = list(zip(data.sources(split), data.references(split)))[: config.limit]
        data.add_split(split, [Pair(*pair) for pair in pairs])
    return split, data


def translate_split(
    model: Translator, data: PairData, split: str, decode: Decode, batch_size: int, device: str
) -> tuple[list[str], float, int]:
    """The hypotheses in the file's order, the seconds that it took, and the tokens that were produced."""
    model.model.to(device)
    found, produced, began = {}, 0, time.perf_counter()
    for batch in data.loader(split, batch_size=batch_size):
        lines, tokens = translate_batch(model.model, decode, Batch(*(part.to(device) for part in batch)), model.tgt_tokenizer)
        found |= dict(zip(batch.index.tolist(), lines))
        produced += tokens
    return [found[place] for place in range(len(found))], time.perf_counter() - began, produced


def output_folder(config: DictConfig, split: str) -> Path:
    """Where the results go. It is made now: a place that cannot be written to is told before the work, not after it."""
    ckpt = Path(str(config.ckpt)).resolve()
    of_a_run = ckpt.parent.name == "checkpoints" and (ckpt.parent.parent / "config.yaml").is_file()
    base = ckpt.parent.parent if of_a_run else Path()
    name = config.decode._target_.rpartition(".")[2].lower()
    folder = Path(str(config.out)) if config.out is not None else base / "evaluate" / f"{split}-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise DuetError(f"cannot write to {folder}: out=FOLDER names another one")
    return folder


def write_lines(path: Path, lines: list[str]) -> None:
    unfinished = path.with_name(f".{path.name}.part")
    unfinished.write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="\n")
    os.replace(unfinished, path)


def draw_heatmaps(config: DictConfig, model: Translator, sentences: list[str], decode: Decode, out: Path) -> None:
    limit = None if model.model.max_source is None else model.model.max_source - 1
    for n, sentence in enumerate(sentences, 1):
        if not sentence.strip():
            continue
        look = Look(model.model, sentence, model.src_tokenizer, model.tgt_tokenizer, decode, limit)
        if not look.attention:
            print("no heatmaps: this model has no attention")
            return
        for kind, figure in look.figures(config.layers, config.heads):
            heatmap.save(figure, out / "heatmaps" / f"{kind}_{n}.png")


def report(result: dict, out: Path) -> None:
    """The table."""
    print(f"{result['split']}: {result['sentences']:,} sentences, {result['decode']['_target_'].rpartition('.')[2].lower()}")
    for name, unit in {"bleu": "", "chrf": "", "ter": "", "exact_match": " %", "length_ratio": ""}.items():
        digits = 3 if name == "length_ratio" else 2
        print(f"  {name:<13}{result[name]:>8.{digits}f}{unit:<3}{result.get(name + '_signature', '')}")
    print(f"  {'seconds':<13}{result['seconds']:>8.1f}   ", end="")
    print(f"{result['sentences_per_second']:,.1f} sentences and {result['tokens_per_second']:,.0f} tokens a second")
    print(f"written to {out}")


def main() -> None:
    quiet()
    words = cli.readable(sys.argv[1:])
    if cli.wants_help(words):
        print(__doc__.strip() + "\n\n" + (cli.CONF / "evaluate.yaml").read_text(encoding="utf-8"))
        return
    model = load(cli.value_of("ckpt", words))
    cli.offer(model.config)
    config = cli.compose("evaluate", words)
    if config.threads:
        torch.set_num_threads(config.threads)
    evaluate(config, model)


if __name__ == "__main__":
    sys.exit(cli.run(main, "evaluate"))
