"""Training speed beside torch.nn.Transformer and Hugging Face's MarianMTModel: python benchmarks/train_step.py

Target tokens per second of the same training steps: one corpus, one vocabulary, the same batches in the same order, the same
sizes, dropout at the same places, Adam, gradient clipping and label smoothing. Every run is a process of its own, and the
three take turns. The first table has each as its users run it; in the second all have Duet's settings of the process, memory
that is not given back to the system and OpenMP threads that sleep while they wait. benchmarks/README.md tells more.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # torch is imported later: `tasks` sets what it reads when it is loaded

TARGETS = {"tiny": 1.6, "small": 1.1}
KINDS = ("duet", "torch", "marian")
SETTINGS = {"own": "each as its users run it", "same": "all with Duet's allocator setting and OMP_WAIT_POLICY"}
DROPOUT, SMOOTHING, CLIP, BETAS = 0.1, 0.1, 1.0, (0.9, 0.98)
RECIPE = [
    "experiment=multi30k",
    "name=train_step",
    "tokenizer.vocab_size=8000",
    f"model.dropout={DROPOUT}",
    "model.positions=sinusoidal",
    "model.attention_dropout=null",
    "model.activation_dropout=null",
    "optimizer=adam",
    f"optimizer.betas=[{BETAS[0]},{BETAS[1]}]",
    f"task.label_smoothing={SMOOTHING}",
    f"trainer.gradient_clip_val={CLIP}",
]


# The three. Each trains on the batches, notes the time at the end of every step in `ends`, and returns its model


def duet(config: dict, vocabulary: int, batches: list, ends: list):
    """`Seq2SeqTask` under Lightning's Trainer, built as train.py does."""
    import lightning
    from torch.utils.data import DataLoader

    from tasks.build import make
    from tasks.quiet import quiet

    class Timing(lightning.Callback):
        def on_train_batch_end(self, trainer, task, outputs, batch, index):
            ends.append(time.perf_counter())

    quiet()
    model = make(config["model"], src_vocabulary=vocabulary, tgt_vocabulary=vocabulary)
    unused = dict(src_tokenizer=None, tgt_tokenizer=None, valid_decode=None, decode=None, bleu={})
    optimizer, scheduler = make(config["optimizer"]), make(config["scheduler"])
    task = make(config["task"], model=model, optimizer=optimizer, scheduler=scheduler, **unused)
    trainer = make(
        {**config["trainer"], "max_epochs": 1, "accelerator": "cpu", "val_check_interval": None},
        **dict.fromkeys(["logger", "enable_checkpointing", "enable_model_summary", "enable_progress_bar"], False),
        callbacks=[Timing()],
    )
    trainer.fit(task, DataLoader(batches, batch_size=None))
    return model


def plain_loop(model, loss, batches: list, ends: list, fused: bool | None = None):
    """The training loop of a tutorial. fused: the optimizer's option; None is what `torch.optim.Adam` does by itself."""
    import torch

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=BETAS, eps=1e-9, fused=fused)
    model.train()
    for batch in batches:
        optimizer.zero_grad()
        loss(model, batch).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        ends.append(time.perf_counter())
    return model


def torch_transformer(config: dict, vocabulary: int, batches: list, ends: list):
    """torch.nn.Transformer with the parts around it, the masks, the loss and the optimizer of PyTorch's translation tutorial.

    One matrix for both embeddings and the output, as in the other two (the tutorial has three).
    """
    import torch
    import torch.nn.functional as F
    from torch import nn

    from data.tokenizer import PAD

    sizes = config["model"]

    class PositionalEncoding(nn.Module):
        def __init__(self, channels: int, dropout: float, length: int = 1024):
            super().__init__()
            rates = torch.exp(-torch.arange(0, channels, 2) * math.log(10_000) / channels)
            angles = torch.arange(length).unsqueeze(1) * rates
            self.register_buffer("table", torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1))
            self.dropout = nn.Dropout(dropout)

        def forward(self, x):
            return self.dropout(x + self.table[: x.size(1)])

    class Translator(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(vocabulary, sizes["channels"])
            nn.init.normal_(self.embedding.weight, std=sizes["channels"] ** -0.5)
            self.positions = PositionalEncoding(sizes["channels"], DROPOUT)
            self.transformer = nn.Transformer(
                sizes["channels"],
                sizes["heads"],
                sizes["layers"],
                sizes["layers"],
                sizes["feed_forward"],
                DROPOUT,
                batch_first=True,
                norm_first=True,
            )
            self.generator = nn.Linear(sizes["channels"], vocabulary, bias=False)
            self.generator.weight = self.embedding.weight

        def embed(self, tokens):
            return self.positions(self.embedding(tokens) * math.sqrt(sizes["channels"]))

        def forward(self, src, tgt):
            future = torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool).triu(1)
            hidden = self.transformer(
                self.embed(src),
                self.embed(tgt),
                tgt_mask=future,
                src_key_padding_mask=src == PAD,
                tgt_key_padding_mask=tgt == PAD,
                memory_key_padding_mask=src == PAD,
            )
            return self.generator(hidden)

    def loss(model, batch):
        logits = model(batch.src, batch.tgt).flatten(0, 1)
        return F.cross_entropy(logits, batch.gold.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING)

    return plain_loop(Translator(), loss, batches, ends)


def marian(config: dict, vocabulary: int, batches: list, ends: list):
    """MarianMTModel (norms after the sublayers) with the labels, loss and optimizer of Hugging Face's Seq2SeqTrainer."""
    from transformers import MarianConfig, MarianMTModel
    from transformers.trainer_pt_utils import LabelSmoother

    from data.tokenizer import BOS, EOS, PAD

    sizes = config["model"]
    both = {}
    for side in ("encoder", "decoder"):
        both |= {f"{side}_layers": sizes["layers"], f"{side}_attention_heads": sizes["heads"]}
        both |= {f"{side}_ffn_dim": sizes["feed_forward"]}
    model = MarianMTModel(
        MarianConfig(
            vocab_size=vocabulary,
            d_model=sizes["channels"],
            activation_function="relu",
            scale_embedding=True,
            use_cache=False,
            pad_token_id=PAD,
            eos_token_id=EOS,
            forced_eos_token_id=EOS,
            decoder_start_token_id=BOS,
            **dict.fromkeys(["dropout", "attention_dropout", "activation_dropout"], DROPOUT),
            **both,
        )
    )
    smoother = LabelSmoother(epsilon=SMOOTHING)

    def loss(model, batch):
        labels = batch.gold.masked_fill(batch.gold == PAD, -100)
        decoder_input_ids = model.prepare_decoder_input_ids_from_labels(labels)
        inputs = dict(input_ids=batch.src, attention_mask=batch.src_mask.long(), decoder_input_ids=decoder_input_ids)
        return smoother(model(**inputs), labels)

    return plain_loop(model, loss, batches, ends, fused=True)


# One run


def work(kind: str, size: str, setting: str, file: str) -> None:
    """What a process does: train, and print the result as JSON."""
    if kind == "duet" or setting == "same":
        import tasks  # noqa: F401  sets OMP_WAIT_POLICY, before torch is loaded
        from tasks.allocator import keep_memory

        keep_memory()
    import torch

    from data.batching import Batch
    from data.tokenizer import PAD

    plan = torch.load(file)
    torch.manual_seed(1)
    batches, warmup, ends = [Batch(*batch) for batch in plan["batches"]], plan["warmup"], []
    train = {"duet": duet, "torch": torch_transformer, "marian": marian}[kind]
    model = train(plan["configs"][size], plan["vocabulary"], batches, ends)
    tokens = sum(int((batch.gold != PAD).sum()) for batch in batches[warmup:])
    parameters = sum(p.numel() for p in model.parameters() if p.requires_grad)
    print(json.dumps({"speed": tokens / (ends[-1] - ends[warmup - 1]), "parameters": parameters}))


def run(kind: str, size: str, setting: str, file: Path) -> dict:
    """The result of a run in a fresh process, and how many cores other processes took meanwhile."""
    command = [sys.executable, __file__, "--work", kind, size, setting, str(file)]
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    started, busy, own = time.perf_counter(), busy_seconds(), children_seconds()
    done = subprocess.run(command, env=environment, text=True, capture_output=True)
    if done.returncode:
        sys.exit(done.stderr)
    others = busy_seconds() - busy - (children_seconds() - own)
    return json.loads(done.stdout.splitlines()[-1]) | {"others": others / (time.perf_counter() - started)}


def busy_seconds() -> float:
    """CPU time of everything on the machine; not a number where Linux does not tell."""
    try:
        user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9])
    except OSError:
        return math.nan
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def children_seconds() -> float:
    times = os.times()
    return times.children_user + times.children_system


# All of them


def prepare(options: argparse.Namespace, file: Path) -> dict:
    """Writes what every run needs: batches as train.py would get them, and the sizes' configs."""
    import hydra
    import torch
    from omegaconf import OmegaConf

    from tasks.build import build_data

    configs = {}
    with hydra.initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        for size in options.models:
            words = [*RECIPE, f"model=transformer_{size}", f"data.root='{options.root}'", f"data.max_tokens={options.max_tokens}"]  # noqa: E501
            configs[size] = OmegaConf.to_container(hydra.compose("train", words), resolve=True)
    data = build_data(configs[options.models[0]])
    data.setup("fit")
    batches = [tuple(batch) for batch, _ in zip(data.train_dataloader(), range(options.warmup + options.steps))]
    plan = {"configs": configs, "vocabulary": len(data.src_tokenizer), "batches": batches, "warmup": options.warmup}
    torch.save(plan, file)
    return plan


def compare(size: str, setting: str, rounds: int, file: Path) -> float:
    """Prints a table and returns the median ratio of Duet to the better of the others."""
    print(f"\ntransformer_{size}, {SETTINGS[setting]}: target tokens per second")
    print(row("round", *KINDS, "ratio", "others"))
    speeds, ratios = [], []
    for number in range(1, rounds + 1):
        results = {kind: run(kind, size, setting, file) for kind in KINDS}
        speeds.append([result["speed"] for result in results.values()])
        ratios.append(speeds[-1][0] / max(speeds[-1][1:]))
        others = max(result["others"] for result in results.values())
        print(row(number, *map(round, speeds[-1]), f"{ratios[-1]:.2f}", f"{others:.1f}"), flush=True)
    ratio = statistics.median(ratios)
    print(row("median", *(round(statistics.median(column)) for column in zip(*speeds)), f"{ratio:.2f}"))
    print("parameters: " + ", ".join(f"{kind} {result['parameters']:,}" for kind, result in results.items()))
    return ratio


def row(*cells) -> str:
    return "".join(f"{cell:>10,}" if isinstance(cell, int) else f"{cell:>10}" for cell in cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=TARGETS, default=list(TARGETS), help="sizes to measure")
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS), help="tables to make")
    parser.add_argument("--rounds", type=int, default=5, help="alternations")
    parser.add_argument("--steps", type=int, default=30, help="steps that are timed")
    parser.add_argument("--warmup", type=int, default=5, help="steps before them")
    parser.add_argument("--max-tokens", type=int, default=2048, help="size of a batch, rows × longest")
    parser.add_argument("--root", default=str(ROOT / "../shared/data/multi30k"), help="folder of Multi30k")
    parser.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work(*options.work)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plan.pt"
        plan = prepare(options, file)
        print(f"{options.steps} batches of {options.max_tokens:,} tokens after {options.warmup}, ", end="")
        print(f"vocabulary {plan['vocabulary']:,}, {os.cpu_count()} cores")
        runs = [(size, setting) for setting in options.settings for size in options.models]
        ratios = {(size, setting): compare(size, setting, options.rounds, file) for size, setting in runs}
    print()
    for (size, setting), ratio in ratios.items():
        verdict = ""
        if setting == "own":
            verdict = f", target {TARGETS[size]}: {'PASS' if ratio >= TARGETS[size] else 'MISS'}"
        print(f"transformer_{size}, {SETTINGS[setting]}: {ratio:.2f} × the better of the others{verdict}")


if __name__ == "__main__":
    main()
