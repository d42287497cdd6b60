"""Training and testing any `Seq2Seq` model under Lightning.

Shapes: B batch, T target tokens, M real target tokens of a batch.
"""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import lightning
import torch
from torch import Tensor

from data.batching import Batch
from data.tokenizer import EOS, PAD, Tokenizer
from model.base import Seq2Seq
from tasks.decoding import Decode, answer
from tasks.forcing import Constant, Schedule
from tasks.loss import smoothed_cross_entropy
from tasks.metrics import quick_scores, scores

VALIDATED = ("val/loss", "val/ppl", "val/bleu", "val/chrf")  # the scores of a validation


class Translated(NamedTuple):
    """The best hypothesis of each source of a batch. tokens: produced in all. given_up: of each, what its search gave up."""

    lines: list[str]
    tokens: int
    given_up: list[tuple[str, ...]]


def translate_batch(model: Seq2Seq, decode: Decode, batch: Batch, tokenizer: Tokenizer, sources: Sequence[str]) -> Translated:
    """sources: the texts of the whole split. A blank source gives a blank line."""
    found = answer(decode, model, batch, tokenizer, sources)
    blank = (batch.src[:, 0] == EOS).tolist()
    lines = ["" if empty else best for empty, (best, *_) in zip(blank, found.texts)]
    return Translated(lines, int((found.hypotheses.tokens[:, 0] != PAD).sum()), found.given_up)


class Seq2SeqTask(lightning.LightningModule):
    """Loss, optimizer, metrics.

    optimizer, scheduler: factories, of the parameters and of the optimizer. valid_decode: the search during training;
    decode: the one of the test. bleu: options of `tasks.metrics.scores`. label_smoothing in [0, 1).
    compile: run the model's forward pass through `torch.compile`. log_every: optimizer steps between two points of a curve.
    teacher_forcing: a schedule of `tasks.forcing`, of training (None: always 1); validation and test never differ from 1.
    recipe: the run's plain config, which goes into every checkpoint with the tokenizers.

    A batch's loss is a sum over its target tokens; gradients are divided by the tokens of the whole accumulation window
    (of all devices) just before clipping, so that any way to cut a batch gives the same step.
    """

    def __init__(
        self,
        model: Seq2Seq,
        src_tokenizer: Tokenizer,
        tgt_tokenizer: Tokenizer,
        *,
        optimizer: Callable,
        scheduler: Callable,
        valid_decode: Decode,
        decode: Decode,
        bleu: dict,
        label_smoothing: float = 0.1,
        compile: bool = False,
        log_every: int = 50,
        teacher_forcing: Schedule | None = None,
        recipe: dict | None = None,
    ):
        super().__init__()
        if not 0 <= label_smoothing < 1:
            raise ValueError(f"task.label_smoothing must be at least 0 and below 1, not {label_smoothing}")
        self.model, self.src_tokenizer, self.tgt_tokenizer = model, src_tokenizer, tgt_tokenizer
        self.make_optimizer, self.make_scheduler = optimizer, scheduler
        self.valid_decode, self.decode, self.bleu = valid_decode, decode, bleu
        self.label_smoothing, self.log_every, self.recipe = label_smoothing, log_every, recipe or {}
        self.teacher_forcing = teacher_forcing or Constant()
        self.train_forward = torch.compile(model.forward, dynamic=True) if compile else model.forward
        self.train_scores: dict[str, float] = {}  # the latest point of the training curves
        self.sources: list[str] = []  # of the evaluation going on
        self.hypotheses: dict[int, str] = {}  # likewise, by place
        self.window = _Sums()  # of the accumulation window
        self.curve = _Sums()  # since the last point of the curve
        self.tokens: Tensor | int = 0  # target tokens that this process has trained on; a tensor, so that nobody waits for it

    # Training

    def training_step(self, batch: Batch, batch_index: int) -> Tensor:
        real = batch.gold != PAD
        ratio = self.teacher_forcing(self.global_step)
        hidden = self.train_forward(batch.src, batch.src_mask, batch.tgt, teacher_forcing=ratio).hidden
        loss, _ = smoothed_cross_entropy(self.model.project(hidden[real]), batch.gold[real], self.label_smoothing)
        tokens = real.sum()
        self.window.add(loss.detach(), tokens)
        self.curve.add(loss.detach(), tokens)
        self.tokens = self.tokens + tokens
        return loss

    def on_before_optimizer_step(self, optimizer) -> None:
        """Sums become means: Lightning has divided by the number of batches, DDP by the number of devices."""
        tokens = self._over_devices(self.window.tokens)
        factor = self.trainer.accumulate_grad_batches * self.trainer.world_size / tokens
        gradients = [p.grad for p in self.parameters() if p.grad is not None]
        torch._foreach_mul_(gradients, float(factor))
        self.window = _Sums()

    def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None) -> None:
        """By norm. (Lightning's own refuses fused optimizers under mixed precision, also where no scaler is at work.)"""
        if gradient_clip_val:
            sharded = getattr(self.trainer.model, "clip_grad_norm_", None)  # FSDP has to sum over devices
            if sharded is not None:
                sharded(gradient_clip_val)
            else:
                torch.nn.utils.clip_grad_norm_(self.parameters(), gradient_clip_val, foreach=True)

    def on_train_batch_end(self, outputs, batch, batch_index) -> None:
        if self.window.batches or self.global_step % self.log_every:
            return  # in the middle of a window, or not yet
        self._log_curve()

    def _log_curve(self) -> None:
        loss, tokens = self._over_devices(self.curve.loss), self._over_devices(self.curve.tokens)
        self.train_scores = {
            "train/loss": float(loss / tokens),
            "train/tokens_per_second": float(tokens) / self.curve.seconds(),
            "lr": self.trainer.optimizers[0].param_groups[0]["lr"],
        }
        if self.teacher_forcing.lowest < 1:
            self.train_scores["train/teacher_forcing"] = self.teacher_forcing(self.global_step)
        for logger in self.loggers:
            logger.log_metrics(self.train_scores, step=self.global_step)
        self.curve = _Sums()

    def _over_devices(self, value: Tensor) -> Tensor:
        return self.trainer.strategy.reduce(value.detach().clone().float(), reduce_op="sum")

    def configure_optimizers(self):
        optimizer = self.make_optimizer(self.model.parameters())
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": self.make_scheduler(optimizer), "interval": "step"}}

    # Validation and test

    def on_validation_start(self) -> None:
        self.curve.pause()

    def on_validation_end(self) -> None:
        self.curve.go_on()

    def on_validation_epoch_start(self) -> None:
        self._begin("valid")

    def on_test_epoch_start(self) -> None:
        self._begin("test")

    def _begin(self, split: str) -> None:
        self.hypotheses, self.sums, self.sources = {}, _Sums(), self.trainer.datamodule.sources(split)

    def validation_step(self, batch: Batch, batch_index: int) -> None:
        self._evaluate(batch, self.valid_decode)

    def test_step(self, batch: Batch, batch_index: int) -> None:
        self._evaluate(batch, self.decode)

    def _evaluate(self, batch: Batch, decode: Decode) -> None:
        real = batch.gold != PAD
        hidden = self.model(batch.src, batch.src_mask, batch.tgt).hidden
        _, nll = smoothed_cross_entropy(self.model.project(hidden[real]), batch.gold[real])
        self.sums.add(nll, real.sum())
        found = translate_batch(self.model, decode, batch, self.tgt_tokenizer, self.sources)
        self.hypotheses |= dict(zip(batch.index.tolist(), found.lines))

    def on_validation_epoch_end(self) -> None:
        values = self._scores("valid", quick_scores)
        self._report({f"val/{name}": value for name, value in values.items()})

    def on_test_epoch_end(self) -> None:
        self.test_scores = self._scores("test", scores)
        self._report({f"test/{name}": value for name, value in self.test_scores.items() if not isinstance(value, str)})

    def _report(self, values: dict[str, float]) -> None:
        """To Lightning, for what monitors a score, and to the loggers, at the optimizer step it belongs to."""
        self.log_dict({name: float(value) for name, value in values.items()}, batch_size=1, logger=False)
        for logger in self.loggers:
            logger.log_metrics(values, step=self.global_step)

    def _scores(self, split: str, score: Callable) -> dict:
        """loss and ppl a target token, and the scores of the decoded text against the raw references."""
        loss = float(self._over_devices(self.sums.loss) / self._over_devices(self.sums.tokens))
        self.hypotheses = self._all_hypotheses()
        references = self.trainer.datamodule.references(split)
        places = sorted(self.hypotheses)
        found = score([self.hypotheses[i] for i in places], [references[i] for i in places], **self.bleu)
        return {"loss": loss, "ppl": min(float(torch.tensor(loss).exp()), 1e9)} | found

    def _all_hypotheses(self) -> dict[int, str]:
        if self.trainer.world_size == 1:
            return self.hypotheses
        return {place: line for part in self._of_all(self.hypotheses) for place, line in part.items()}

    def _of_all(self, value: dict) -> list[dict]:
        """What this is on each device, by rank."""
        parts: list[dict] = [{}] * self.trainer.world_size
        torch.distributed.all_gather_object(parts, value)
        return parts

    # Checkpoints: all that is needed to use the model, and all that is needed to go on training as if never stopped

    def on_save_checkpoint(self, checkpoint: dict) -> None:
        shared = self.src_tokenizer is self.tgt_tokenizer
        checkpoint["duet"] = {
            "format": 1,
            "config": self.recipe,
            "source": self.src_tokenizer.state(),
            "target": None if shared else self.tgt_tokenizer.state(),
        }
        checkpoint["progress"] = {
            "window": self.window.state(),
            "curve": self.curve.state(),
            "gradients": self._open_gradients(),
            "random": torch.get_rng_state(),
            "random_cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        }
        if self.trainer.world_size > 1:  # the file is one device's; each has gradients and random numbers of its own
            checkpoint["progress"]["devices"] = self._of_all(checkpoint["progress"])

    def on_load_checkpoint(self, checkpoint: dict) -> None:
        self.resumed = checkpoint.get("progress")
        devices = (self.resumed or {}).get("devices", [])
        if len(devices) == self.trainer.world_size:
            self.resumed = devices[self.trainer.global_rank]

    def on_train_start(self) -> None:
        if resumed := self.__dict__.pop("resumed", None):
            self.window, self.curve = _Sums(resumed["window"]), _Sums(resumed["curve"])
            for name, parameter in self.named_parameters():
                if name in resumed["gradients"]:
                    parameter.grad = resumed["gradients"][name].to(parameter.device)
            torch.set_rng_state(resumed["random"].cpu())
            if torch.cuda.is_available() and len(resumed["random_cuda"]) == torch.cuda.device_count():
                torch.cuda.set_rng_state_all([state.cpu() for state in resumed["random_cuda"]])
        self.curve.go_on()

    def _open_gradients(self) -> dict[str, Tensor]:
        """Those of an accumulation window that the checkpoint falls into."""
        if not self.window.batches:
            return {}
        return {name: p.grad.clone() for name, p in self.named_parameters() if p.grad is not None}


class _Sums:
    """Loss and tokens, summed over batches without waiting for the device, and the seconds that passed."""

    def __init__(self, state: dict | None = None):
        state = state or {"loss": 0.0, "tokens": 0, "batches": 0, "seconds": 0.0}
        self.loss, self.tokens = torch.tensor(state["loss"], dtype=torch.float64), torch.tensor(state["tokens"])
        self.batches, self._seconds, self._since = state["batches"], state["seconds"], time.perf_counter()

    def add(self, loss: Tensor, tokens: Tensor) -> None:
        self.loss, self.tokens = self.loss.to(loss.device) + loss, self.tokens.to(tokens.device) + tokens
        self.batches += 1

    def pause(self) -> None:
        self._seconds, self._since = self.seconds(), None

    def go_on(self) -> None:
        self._since = time.perf_counter()

    def seconds(self) -> float:
        return self._seconds + (0.0 if self._since is None else time.perf_counter() - self._since)

    def state(self) -> dict:
        return {"loss": float(self.loss), "tokens": int(self.tokens), "batches": self.batches, "seconds": self.seconds()}
