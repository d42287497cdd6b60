"""A few validation sentences, looked at again and again while a model learns: what it writes, and where it looks."""

from collections.abc import Sequence
from pathlib import Path

from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn

from data.errors import DuetError
from data.tokenizer import BOS, EOS, PAD
from model.base import Seq2Seq, attention_shapes
from tasks import heatmap
from tasks.build import Translator
from tasks.decoding import About, Decode, Request


class Samples(Callback):
    """Writes outputs to samples/… and heatmaps to attention/… in TensorBoard, and heatmaps/*.png in the run's folder.

    count: how many sentences, the first of the validation split. layers, heads: which are drawn (None: all).
    images: whether heatmaps are drawn. image_every: validations between two sets of them; the last one always has one.
    """

    def __init__(
        self,
        *,
        count: int = 3,
        layers: list[int] | None = None,
        heads: list[int] | None = None,
        images: bool = True,
        image_every: int = 4,
    ):
        if count < 0 or image_every < 1:
            raise ValueError(
                f"callbacks.samples.count must be at least 0 and callbacks.samples.image_every at least 1, "
                f"not {count} and {image_every}"
            )
        self.count, self.layers, self.heads, self.images, self.image_every = count, layers, heads, images, image_every
        self.validations = 0

    def setup(self, trainer: Trainer, task: LightningModule, stage: str) -> None:
        """A layer or head that the model does not have is told before training, not at the first validation."""
        if self.count and self.images:
            try:
                check_places(task.model, self.layers, self.heads)
            except DuetError as error:
                raise DuetError(f"callbacks.samples: {error}") from None

    def on_validation_epoch_end(self, trainer: Trainer, task: LightningModule) -> None:
        """While the weights are those that were validated, which a moving average puts away after this."""
        if trainer.state.fn != TrainerFn.FITTING or not trainer.is_global_zero or not self.count:
            return
        sources, references = trainer.datamodule.sources("valid"), trainer.datamodule.references("valid")
        draw = self.images and (self.validations % self.image_every == 0 or trainer.should_stop)
        self.validations += 1
        model = Translator(task.model, task.src_tokenizer, task.tgt_tokenizer, {})
        for n, (source, reference) in enumerate(zip(sources[: self.count], references), 1):
            if not source.strip():
                continue
            look = Look(model, source, task.valid_decode, trainer.datamodule.max_source, n - 1)
            text = f"    source      {source}\n    reference   {reference}\n    hypothesis  {look.text}"
            for board in _boards(trainer):
                board.add_text(f"samples/{n}", text, trainer.global_step)
            if draw:
                self._draw(trainer, look, n)

    def _draw(self, trainer: Trainer, look: "Look", n: int) -> None:
        folder = Path(trainer.default_root_dir) / "heatmaps"
        for kind, figure in look.figures(self.layers, self.heads):
            heatmap.save(figure, folder / f"{kind}_{n}.png")
            for board in _boards(trainer):
                board.add_image(f"attention/{kind}_{n}", heatmap.to_array(figure), trainer.global_step, dataformats="HWC")

    def state_dict(self) -> dict:
        return {"validations": self.validations}

    def load_state_dict(self, state: dict) -> None:
        self.validations = state["validations"]


KINDS = ("encoder", "decoder", "cross")


def check_places(
    model: Seq2Seq, layers: list[int] | None, heads: list[int] | None, *, kinds: Sequence[str] = KINDS, name: str = ""
) -> None:
    """Raises DuetError for layers or heads (None: all) that attention of these kinds lacks. name: of the model, to be told."""
    try:
        for kind, shape in attention_shapes(model).items() if layers is not None or heads is not None else ():
            if kind in kinds:
                heatmap.choose(shape, layers, heads)
    except ValueError as error:
        raise DuetError(f"{name}: {error}" if name else str(error)) from None


def _boards(trainer: Trainer) -> list:
    """The TensorBoard writers of a run."""
    return [logger.experiment for logger in trainer.loggers if hasattr(logger.experiment, "add_image")]


class Look:
    """One sentence, what a model makes of it, and its attention while it does.

    attention: "encoder" | "decoder" | "cross" -> (layers, H, T, S); {} where no answer was found. Row t of "cross" belongs to
    the token it predicts.
    place: of the sentence in its file, on which a random search depends.
    """

    def __init__(self, model: Translator, source: str, decode: Decode, max_source: int | None = None, place: int = 0):
        tokens = model.src_tokenizer.encode(source)[:max_source]
        found = decode(model.model, model.batch([(tokens, [])], [place]), About(model.tgt_tokenizer, [Request(source)]))
        best = found.hypotheses.tokens[0, 0]
        ids = best[best != PAD].tolist()
        self.text, self.attention = found.texts[0][0], model.attention(tokens, ids) if ids else {}
        source_pieces = model.src_tokenizer.pieces([*tokens, EOS])
        gold_pieces, tgt_pieces = model.tgt_tokenizer.pieces(ids), model.tgt_tokenizer.pieces([BOS, *ids[:-1]])
        self.labels = {  # rows, columns
            "encoder": (source_pieces, source_pieces),
            "decoder": (tgt_pieces, tgt_pieces),
            "cross": (gold_pieces, source_pieces),
        }

    def figures(self, layers: list[int] | None = None, heads: list[int] | None = None):
        """(kind, matplotlib figure) of each kind of attention that the model has."""
        for kind, weights in self.attention.items():
            yield kind, heatmap.draw(weights, *self.labels[kind], title=f"{kind} attention", layers=layers, heads=heads)
