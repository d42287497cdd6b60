"""Training speed of rnn_additive beside the loop of the textbooks: python benchmarks/rnn_step.py

Target tokens per second of the same training steps. The classical loop, written below, does at every step what need not be
done there: it joins the query with every source token and multiplies both by W, so the source's keys are projected again;
it multiplies the token's embedding by the LSTM's matrix; and it projects to the vocabulary, padding too. It has the same
encoder, the same sizes, starts from the same weights, and gets the same batches, loss, optimizer and clipping. A first check
prints that both have the same loss and gradient. The two take turns in one process. benchmarks/README.md tells more.
"""

# ruff: noqa: E402  imports come after sys.path
import argparse
import copy
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import tasks  # noqa: F401  # isort: skip  # first: it sets what torch reads when it is loaded

import hydra
import torch
import torch.nn.functional as F
from omegaconf import OmegaConf
from torch import Tensor, nn

from data.batching import Batch
from data.tokenizer import PAD
from model.recurrent import Encoder, Recurrent
from tasks.allocator import keep_memory
from tasks.build import build_data, build_model
from tasks.loss import smoothed_cross_entropy

TARGET, CLIP = 1.3, 1.0


class Classical(nn.Module):
    """Additive attention (Bahdanau et al. 2015) as it is taught: everything inside the loop over target tokens."""

    def __init__(self, vocabulary: int, width: int, channels: int, encoder: Encoder, dropout: float):
        super().__init__()
        self.encoder, self.memory = encoder, nn.Linear(2 * channels, channels)
        self.embedding, self.scale = nn.Embedding(vocabulary, width), width**0.5
        self.attention = nn.Linear(2 * channels, channels)  # W [query; key]
        self.energy = nn.Linear(channels, 1, bias=False)  # v
        self.cell = nn.LSTMCell(width + channels, channels)
        self.readout = nn.Linear(2 * channels, width)
        self.dropout = type(encoder.dropout)(dropout)

    def forward(self, src: Tensor, src_mask: Tensor, tgt: Tensor) -> Tensor:
        """Logits (B, T, V)."""
        encoded, last = self.encoder(src, src_mask)
        memory = self.memory(encoded).tanh()
        hidden, cell = (forth + back for forth, back in last)
        logits = []
        for token in tgt.unbind(1):
            query = hidden.unsqueeze(1).expand_as(memory)
            scores = self.energy(self.attention(torch.cat([query, memory], dim=2)).tanh()).squeeze(2)
            weights = scores.masked_fill(~src_mask, -torch.inf).softmax(dim=1)
            context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
            embedded = self.dropout(self.embedding(token) * self.scale)
            hidden, cell = self.cell(torch.cat([embedded, context], dim=1), (hidden, cell))
            read = self.dropout(self.readout(torch.cat([hidden, context], dim=1)).tanh())
            logits.append(F.linear(read, self.embedding.weight))
        return torch.stack(logits, dim=1)


def classical(model: Recurrent, dropout: float) -> Classical:
    """The classical model with a copy of the weights of ours."""
    vocabulary, width = model.output.shape
    decoder, channels = model.decoder, model.decoder.cells[0].recurrent.size(1)
    other = Classical(vocabulary, width, channels, copy.deepcopy(model.encoder), dropout)
    cell, score = decoder.cells[0], decoder.view.score

    def by_gate(weight: Tensor) -> Tensor:  # PyTorch's order has the new content before the output gate
        enter, forget, leave, new = weight.chunk(4)
        return torch.cat([enter, forget, new, leave])

    with torch.no_grad():
        other.memory.load_state_dict(decoder.view.memory.state_dict())
        other.attention.weight.copy_(torch.cat([score.query.weight, score.key.weight], dim=1))
        other.attention.bias.copy_(score.query.bias)
        other.energy.load_state_dict(score.energy.state_dict())
        other.cell.weight_ih.copy_(by_gate(torch.cat([decoder.token.weight, cell.input.weight], dim=1)))
        other.cell.weight_hh.copy_(by_gate(cell.recurrent))
        other.cell.bias_ih.copy_(by_gate(cell.input.bias))
        other.cell.bias_hh.zero_().requires_grad_(False)  # one bias is enough, and ours has one
        other.readout.load_state_dict(decoder.readout.state_dict())
    other.embedding.weight = other.encoder.embedding.weight
    return other


def our_loss(model: Recurrent, batch: Batch, smoothing: float) -> Tensor:
    """As `Seq2SeqTask` has it, a mean."""
    real = batch.gold != PAD
    hidden = model(batch.src, batch.src_mask, batch.tgt).hidden
    return smoothed_cross_entropy(model.project(hidden[real]), batch.gold[real], smoothing)[0] / real.sum()


def classical_loss(model: Classical, batch: Batch, smoothing: float) -> Tensor:
    logits = model(batch.src, batch.src_mask, batch.tgt)
    return F.cross_entropy(logits.flatten(0, 1), batch.gold.flatten(), ignore_index=PAD, label_smoothing=smoothing)


class Run:
    """A model with its optimizer, timed on batches."""

    def __init__(self, model: nn.Module, loss, smoothing: float):
        self.model, self.loss, self.smoothing, self.speeds = model.train(), loss, smoothing, []
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def steps(self, batches: list[Batch]) -> float:
        """Trains, and returns the target tokens a second."""
        started = time.perf_counter()
        for batch in batches:
            self.optimizer.zero_grad()
            self.loss(self.model, batch, self.smoothing).backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
            self.optimizer.step()
        return sum(int((batch.gold != PAD).sum()) for batch in batches) / (time.perf_counter() - started)


def check(ours: Recurrent, theirs: Classical, batch: Batch, smoothing: float) -> None:
    """Without dropout, both have the same loss and a gradient of the same size."""
    found = []
    for model, loss in ((ours, our_loss), (theirs, classical_loss)):
        value = loss(model.eval(), batch, smoothing)
        value.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), float("inf"))
        model.zero_grad()
        found.append((float(value.detach()), float(norm)))
    (loss, norm), (other, other_norm) = found
    print(f"same weights, no dropout: loss {loss:.5f} and {other:.5f}, norm of the gradient {norm:.5f} and {other_norm:.5f}")
    if abs(loss - other) > 1e-4 or abs(norm - other_norm) > 1e-3:
        sys.exit("the two are not the same model: nothing was measured")


def prepare(options: argparse.Namespace) -> tuple[Recurrent, list[Batch], dict]:
    """The model of the config, batches as train.py would get them, and the config."""
    words = ["model=rnn_additive", "name=rnn_step", f"data.max_tokens={options.max_tokens}"]
    if (options.root / "train.en").is_file():
        words += ["experiment=multi30k", f"data.root='{options.root}'"]
    else:
        print(f"there is no Multi30k in {options.root}: the built-in corpus")
    with hydra.initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        config = OmegaConf.to_container(hydra.compose("train", words), resolve=True)
    data = build_data(config)
    data.setup("fit")
    torch.manual_seed(1)
    model = build_model(config, data.src_tokenizer, data.tgt_tokenizer)
    batches = [batch for batch, _ in zip(data.train_dataloader(), range(options.warmup + options.steps))]
    return model, batches, config


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="alternations")
    parser.add_argument("--steps", type=int, default=30, help="steps that are timed in a round")
    parser.add_argument("--warmup", type=int, default=5, help="steps before all of them")
    parser.add_argument("--max-tokens", type=int, default=1024, help="size of a batch, rows × longest")
    parser.add_argument("--root", type=Path, default=ROOT / "../shared/data/multi30k", help="folder of Multi30k")
    options = parser.parse_args()
    keep_memory()
    model, batches, config = prepare(options)
    smoothing = config["task"]["label_smoothing"]
    other = classical(model, config["model"]["dropout"])
    check(model, other, batches[0], smoothing)
    runs = {"duet": Run(model, our_loss, smoothing), "classical": Run(other, classical_loss, smoothing)}
    sizes = ", ".join(f"{name} {count(run.model):,}" for name, run in runs.items())
    print(f"{options.steps} batches of {options.max_tokens:,} tokens, {torch.get_num_threads()} threads; parameters: {sizes}")
    print("target tokens per second\n" + row("round", *runs, "ratio"))
    for run in runs.values():
        run.steps(batches[: options.warmup])
    for number in range(1, options.rounds + 1):
        for run in runs.values():
            run.speeds.append(run.steps(batches[options.warmup :]))
        speeds = [run.speeds[-1] for run in runs.values()]
        print(row(number, *map(round, speeds), f"{speeds[0] / speeds[1]:.2f}"), flush=True)
    ratio = statistics.median(ours / theirs for ours, theirs in zip(*(run.speeds for run in runs.values())))
    print(row("median", *(round(statistics.median(run.speeds)) for run in runs.values()), f"{ratio:.2f}"))
    print(f"rnn_additive: {ratio:.2f} × the classical loop, target {TARGET}: {'PASS' if ratio >= TARGET else 'MISS'}")


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def row(*cells) -> str:
    return "".join(f"{cell:>12,}" if isinstance(cell, int) else f"{cell:>12}" for cell in cells)


if __name__ == "__main__":
    main()
