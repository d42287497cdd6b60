"""Text to token ids and back."""

import io
import json
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Protocol

import sentencepiece

from data.errors import DuetError

PAD, UNK, BOS, EOS = 0, 1, 2, 3
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
SILENT = (PAD, BOS, EOS)  # ids that stand for no text
UNKNOWN = "⁇"

sentencepiece.set_min_log_level(2)  # errors only


class Tokenizer(Protocol):
    def encode(self, text: str) -> list[int]:
        """Ids without BOS and EOS."""

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of each text, faster."""

    def decode(self, ids: Iterable[int]) -> str:
        """Text; PAD, BOS and EOS are left out wherever they stand."""

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """One label an id, as it is written in the vocabulary (`▁` marks a blank)."""

    def __len__(self) -> int: ...

    def state(self) -> dict:
        """Plain values and bytes from which `restore` builds an equal tokenizer."""


class Characters:
    """One id a Unicode code point; nothing is normalised away, a blank is a character like any other."""

    def __init__(self, alphabet: str):
        self._characters = [*SPECIALS, *alphabet]
        self._ids = {character: id for id, character in enumerate(alphabet, len(SPECIALS))}

    @classmethod
    def train(cls, texts: Iterable[str], *, min_count: int = 1) -> "Characters":
        """Keeps the characters seen at least `min_count` times, the most frequent first."""
        if min_count < 1:
            raise DuetError(f"tokenizer.min_count is {min_count}: it must be at least 1")
        counts = Counter()
        for text in texts:
            counts.update(text)
        kept = [character for character, count in counts.items() if count >= min_count]
        if not counts:
            raise DuetError("the training data hold no character: every pair is blank")
        if not kept:
            raise DuetError(f"no character occurs tokenizer.min_count={min_count} times in the training data: lower it")
        return cls("".join(sorted(kept, key=lambda character: (-counts[character], character))))

    def encode(self, text: str) -> list[int]:
        ids = self._ids
        return [ids.get(character, UNK) for character in text]

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        return "".join(UNKNOWN if id == UNK else self._characters[id] for id in ids if id not in SILENT)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._characters[id] for id in ids]

    def __len__(self) -> int:
        return len(self._characters)

    def state(self) -> dict:
        return {"kind": "characters", "alphabet": "".join(self._characters[len(SPECIALS) :])}


class SentencePiece:
    """Subword units (Kudo and Richardson 2018). Unknown characters that touch become one UNK."""

    def __init__(self, model: bytes):
        self._model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        *,
        model_type: str = "bpe",
        vocab_size: int = 8000,
        normalization: str = "nmt_nfkc",
        character_coverage: float = 1.0,
        input_sentence_size: int = 500_000,
        seed: int = 1,
    ) -> "SentencePiece":
        """Trains in a process of its own, so that its memory goes back to the system.

        Above `input_sentence_size` texts (0: no limit) a random sample of that many is used.
        """
        if model_type not in MODEL_TYPES:
            raise DuetError(f"tokenizer.model_type is {model_type!r}: choose {', '.join(MODEL_TYPES)}")
        if normalization not in NORMALIZATIONS:
            raise DuetError(f"tokenizer.normalization is {normalization!r}: choose {', '.join(NORMALIZATIONS)}")
        if not isinstance(vocab_size, int) or vocab_size < 1:
            raise DuetError(f"tokenizer.vocab_size is {vocab_size!r}: it must be a whole number from 1 on")
        if not 0.98 <= character_coverage <= 1:
            raise DuetError(f"tokenizer.character_coverage is {character_coverage}: it must be from 0.98 to 1")
        options = {
            "model_type": model_type,
            "vocab_size": vocab_size,
            "normalization_rule_name": normalization,
            "character_coverage": character_coverage,
            "input_sentence_size": input_sentence_size,
            "seed": seed,
        }
        return cls(_train_apart(texts, options))

    def encode(self, text: str) -> list[int]:
        return self._processor.encode(text)

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        return self._processor.encode(list(texts))

    def decode(self, ids: Iterable[int]) -> str:
        return self._processor.decode([int(id) for id in ids if id not in SILENT])

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._processor.id_to_piece(int(id)) for id in ids]

    def __len__(self) -> int:
        return self._processor.get_piece_size()

    def state(self) -> dict:
        return {"kind": "sentencepiece", "model": self._model}


MODEL_TYPES = ("bpe", "unigram")
NORMALIZATIONS = ("nmt_nfkc", "nmt_nfkc_cf", "nfkc", "nfkc_cf", "identity")


def restore(state: dict) -> Tokenizer:
    """The tokenizer whose `state()` this is."""
    if state["kind"] == "characters":
        return Characters(state["alphabet"])
    return SentencePiece(state["model"])


# Training a SentencePiece model: the parent writes one JSON line a text, the child answers with the model.


def _train_apart(texts: Iterable[str], options: dict) -> bytes:
    child = subprocess.Popen(
        [sys.executable, "-m", "data.tokenizer", json.dumps(options)],
        cwd=Path(__file__).resolve().parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with child:
        try:
            _send(texts, child.stdin)
            model, complaint = child.stdout.read(), child.stderr.read()
        except BaseException:
            child.kill()
            raise
    if child.returncode != 0:
        raise DuetError(_training_error(complaint.decode("utf-8", "replace"), options))
    return model


def _send(texts: Iterable[str], pipe: BinaryIO) -> None:
    with suppress(BrokenPipeError), pipe:  # a child that dies early says why
        for text in texts:
            pipe.write(json.dumps(text).encode() + b"\n")


def _training_error(complaint: str, options: dict) -> str:
    size, kind = options["vocab_size"], options["model_type"]
    if limit := re.search(r"Vocabulary size too high .* a value <= (\d+)", complaint):
        return f"tokenizer.vocab_size={size} is too large for this corpus: the largest possible with {kind} is {limit[1]}"
    if limit := re.search(r"smaller than required_chars. \d+ vs (\d+)", complaint):
        return f"tokenizer.vocab_size={size} is too small for the characters of this corpus: give at least {limit[1]}"
    if "!sentences_.empty()" in complaint or "all_chars_count" in complaint:
        return "there is no text to train a tokenizer on: the training split is blank on that side"
    last_line = (complaint.strip().splitlines() or ["no reason given"])[-1]
    return f"SentencePiece cannot be trained on this corpus ({kind}, {size}): {last_line}"


def _train_here() -> None:
    options = json.loads(sys.argv[1])
    size, seed = options.pop("input_sentence_size"), options.pop("seed")
    texts = (json.loads(line) for line in sys.stdin)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(_sample(texts, size, seed) if size else texts),
        model_writer=model,
        pad_id=PAD,
        unk_id=UNK,
        bos_id=BOS,
        eos_id=EOS,
        num_threads=4,  # fixed: the sums of unigram training depend on how the work is divided
        minloglevel=2,
        **options,
    )
    sys.stdout.buffer.write(model.getvalue())


def _sample(texts: Iterable[str], size: int, seed: int) -> list[str]:
    """`size` texts, each as likely as any other (Vitter 1985, algorithm R). SentencePiece's own sample has no seed."""
    rng, sample = random.Random(seed), []
    for number, text in enumerate(texts):
        if number < size:
            sample.append(text)
        elif (place := rng.randrange(number + 1)) < size:
            sample[place] = text
    return sample


if __name__ == "__main__":
    _train_here()
