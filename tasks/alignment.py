"""Word alignment read off cross-attention, and how wrong it is.

The step that writes a target token looks at the source; the source word it looks at most is taken for the one it
translates. EOS is left out on both sides (and no row is scaled up for that), a source word has the sum of its tokens'
weights, a target word the mean of its tokens' rows.

Shapes: L layers, H heads, T target tokens and S source tokens (EOS included), J target words, I source words.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from data.batching import Batch
from data.errors import DuetError
from data.module import PairData
from data.sources import read_lines
from data.tokenizer import BOS, PAD, UNK, UNKNOWN, Tokenizer
from model.base import Seq2Seq
from tasks.decoding import Decode, answer
from tasks.metrics import is_chinese

if TYPE_CHECKING:
    from tasks.build import Translator

Link = tuple[int, int]
"""(source word, target word), both from 0."""

# Words and the tokens that they are made of

UNITS = ("blank", "character")
NO_ATTENTION = "the model has no cross-attention, so no alignment can be read off it"


def unit_of(lines: Sequence[str], wanted: str = "auto") -> str:
    """What is a word in these lines: `blank`, what stands between blanks, or `character`, each that is no blank.

    `auto` is `character` where most letters are Chinese. DuetError where `wanted` is none of the three.
    """
    if wanted not in ("auto", *UNITS):
        raise DuetError(f"alignment.unit is {wanted!r}: choose auto, {', '.join(UNITS)}")
    return ("character" if is_chinese(lines) else "blank") if wanted == "auto" else wanted


def words_of_characters(text: str, unit: str) -> list[int]:
    """For each character the place of its word; -1 for a blank."""
    places, word, inside = [], -1, False
    for character in text:
        blank = character.isspace()
        if not blank and (unit == "character" or not inside):
            word += 1
        inside = not blank
        places.append(-1 if blank else word)
    return places


def count_words(text: str, unit: str) -> int:
    return max(words_of_characters(text, unit), default=-1) + 1


def labels(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """The text of each token, with `▁` for a blank."""
    pieces = tokenizer.pieces(ids)
    return [UNKNOWN if id == UNK else piece for id, piece in zip(ids, pieces, strict=True)]


def shares(pieces: Sequence[str], text: str, unit: str) -> np.ndarray:
    """(tokens, words): which part of a token's characters lies in which word of `text`; a row sums to 1, or to 0.

    pieces: the labels of the tokens that `text` was cut into, all of them. A tokenizer may have changed characters, joined
    or dropped them: the two are laid beside each other, and what is unequal is spread evenly.
    A token that is nothing but a blank belongs to the word after it.
    """
    kept = [word for word in words_of_characters(text, unit) if word >= 0]  # of each character that is no blank
    pieces = [piece.replace("▁", " ") for piece in pieces]
    solid = ["".join(piece.split()) for piece in pieces]
    places = _lay("".join(pieces).split(), text.split())
    result, begin = np.zeros((len(pieces), count_words(text, unit))), 0
    for row, piece in zip(result, solid):
        end = begin + len(piece)
        covered = [kept[place] for span in places[begin : end if piece else begin + 1] for place in span]
        for word in covered if piece else covered[:1]:
            row[word] += 1
        begin = end
    return result / np.maximum(result.sum(axis=1, keepdims=True), 1)


def _lay(written: list[str], text: list[str]) -> list[range]:
    """For each character of `written` those of `text` that it stands for: word by word, where there are as many."""
    if len(written) != len(text):
        return _lay_word("".join(written), "".join(text))
    places, begin = [], 0
    for word, there in zip(written, text):
        places += [range(begin + place.start, begin + place.stop) for place in _lay_word(word, there)]
        begin += len(there)
    return places


def _lay_word(written: str, text: str) -> list[range]:
    if len(written) == len(text):
        return [range(i, i + 1) for i in range(len(text))]
    places: list[range] = []
    for _, begin, end, there, there_end in SequenceMatcher(None, written, text, autojunk=False).get_opcodes():
        size, length = end - begin, there_end - there
        for i in range(size):
            first, last = there + i * length // size, there + (i + 1) * length // size
            if length:
                places.append(range(first, max(last, first + 1)))
            else:  # something that the text does not have: it goes with what stands before it
                places.append(range(max(there - 1, 0), max(there - 1, 0) + 1) if text else range(0))
    return places


# From attention to links


def merge(weights: np.ndarray, rows: np.ndarray, columns: np.ndarray, shift: int = 0) -> np.ndarray:
    """(L, H, T, S) -> (L, H, J, I): the attention of words to words.

    rows (T - 1, J), columns (S - 1, I): `shares` of both sides' tokens without EOS.
    shift: a token's row is that of the step that writes it (0), of the next one, which reads it (1), or of the one before (-1).
    A word without tokens has a row of 0.
    """
    tokens = weights.shape[2]
    steps = np.clip(np.arange(tokens - 1) + shift, 0, tokens - 1)
    weights = weights[:, :, steps, :-1] @ columns  # (L, H, T - 1, I)
    return (rows / np.maximum(rows.sum(axis=0), 1e-9)).T @ weights


def with_means(weights: np.ndarray) -> np.ndarray:
    """(L, H, …) -> (L + 1, H + 1, …): the mean of all heads comes last, and that of all layers."""
    weights = np.concatenate([weights, weights.mean(axis=1, keepdims=True)], axis=1)
    return np.concatenate([weights, weights.mean(axis=0, keepdims=True)], axis=0)


def choose(weights: np.ndarray, layer: int | None = None, head: int | None = None) -> np.ndarray:
    """(L, H, J, I) -> (J, I): one layer and head, or the mean of all (None). DuetError for one that is not there."""
    for name, value, size in (("layer", layer, weights.shape[0]), ("head", head, weights.shape[1])):
        if value is not None and not -size <= value < size:
            allowed = f"0 to {size - 1}, or -1 for the last" if size > 1 else "0"
            raise DuetError(f"alignment.{name} is {value}, but the cross-attention has {size}: choose {allowed}, or null")
    weights = weights.mean(axis=0) if layer is None else weights[layer]
    return weights.mean(axis=0) if head is None else weights[head]


def links(weights: np.ndarray) -> list[Link]:
    """(J, I) -> for each target word the source word with the most weight, the first of equals; none for a row of 0."""
    if 0 in weights.shape:
        return []
    found = weights.argmax(axis=1)
    return sorted((int(source), target) for target, source in enumerate(found) if weights[target, source] > 0)


def pharaoh(found: Sequence[Link]) -> str:
    return " ".join(f"{source}-{target}" for source, target in found)


# Gold and error


class Gold(NamedTuple):
    """Links that must be there, and links that may be: the sure ones are among them."""

    sure: frozenset[Link]
    possible: frozenset[Link]


LINK = re.compile(r"(\d+)([-?p])(\d+)")


def parse(line: str, where: str = "") -> Gold:
    """`0-0 1?2` (or `1p2`) -> Gold. DuetError names `where` and the word that is no link."""
    sure, possible = set(), set()
    for word in line.split():
        found = LINK.fullmatch(word)
        if not found:
            raise DuetError(f"{where}: {word!r} is no link: write source-target, as in 0-0, and 0?0 for a possible one")
        link = (int(found[1]), int(found[3]))
        possible.add(link)
        if found[2] == "-":
            sure.add(link)
    return Gold(frozenset(sure), frozenset(possible))


def read_gold(path: str, texts: "Texts", *, whole: bool) -> list[Gold]:
    """The gold alignment of each sentence. whole: whether the file may not be longer than that.

    DuetError where the numbers of lines differ, or a word is not there.
    """
    lines = list(read_lines(path))
    if len(lines) < len(texts.sources) or (whole and len(lines) > len(texts.sources)):
        raise DuetError(f"{path} has {len(lines)} lines, but there are {len(texts.sources)} sentences: each needs one line")
    golds = []
    for number, (line, *pair) in enumerate(zip(lines, texts.sources, texts.references), 1):
        where = f"{path}, line {number}"
        gold = parse(line, where)
        sizes = [count_words(text, unit) for text, unit in zip(pair, texts.units)]
        for link in sorted(gold.possible):
            for name, place, size in zip(("source", "target"), link, sizes):
                if place >= size:
                    raise DuetError(f"{where}: {link[0]}-{link[1]}, but the {name} has {size} words, counted from 0")
        golds.append(gold)
    return golds


class Counts(NamedTuple):
    """What the error rate is made of; counts of several sentences are added up."""

    found: int = 0
    sure: int = 0
    found_sure: int = 0  # of the links found, those that are sure
    found_possible: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*map(sum, zip(self, other)))

    def scores(self) -> dict[str, float]:
        """aer = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|), precision = |A ∩ P| / |A|, recall = |A ∩ S| / |S|, all 0 to 1.

        A found, S sure, P possible links (Och & Ney 2003, section 5). 0 / 0 is a perfect score.
        """
        both = self.found + self.sure
        return {
            "aer": 1 - (self.found_sure + self.found_possible) / both if both else 0.0,
            "precision": self.found_possible / self.found if self.found else 1.0,
            "recall": self.found_sure / self.sure if self.sure else 1.0,
        }


def compare(found: Sequence[Link], gold: Gold) -> Counts:
    """Of one sentence."""
    here = set(found)
    return Counts(len(here), len(gold.sure), len(here & gold.sure), len(here & gold.possible))


# Of a model and a split


class Sentence(NamedTuple):
    """Attention of one sentence, and how its tokens make words: what `merge` needs."""

    place: int
    weights: np.ndarray  # (L, H, T, S)
    rows: np.ndarray  # (T - 1, J)
    columns: np.ndarray  # (S - 1, I)


class Texts(NamedTuple):
    """The lines of a split, and what is a word in them (`unit_of`)."""

    sources: Sequence[str]
    references: Sequence[str]
    units: tuple[str, str]


@torch.no_grad()
def attention(
    model: Seq2Seq,
    tokenizers: tuple[Tokenizer, Tokenizer],
    data: PairData,
    split: str,
    texts: Texts,
    *,
    batch_size: int = 16,
    decode: Decode | None = None,
) -> Iterator[Sentence]:
    """Each sentence of a split that has text on both sides, the longest first.

    decode: None feeds the reference; a search feeds what it finds, and the words are those of its text.
    """
    device = next(model.parameters()).device
    for batch in data.loader(split, batch_size=batch_size):
        batch = Batch(*(part.to(device) for part in batch))
        if decode is not None:
            batch = _with_output(model, decode, batch, tokenizers[1], texts.sources)
        weights = model(batch.src, batch.src_mask, batch.tgt, need_weights=True).attention["cross"]
        for row, place in enumerate(batch.index.tolist()):
            src, gold = (ids[ids != PAD].tolist() for ids in (batch.src[row], batch.gold[row]))
            source, target = texts.sources[place], texts.references[place]
            columns = _shares(tokenizers[0], source, texts.units[0], None)
            rows = _shares(tokenizers[1], target, texts.units[1], None if decode is None else gold[:-1])
            if len(src) > 1 and len(gold) > 1 and columns.size and rows.size:  # the sides may have been cut: not their texts
                here = weights[row, :, :, : len(gold), : len(src)].double().cpu().numpy()
                yield Sentence(place, here, rows[: len(gold) - 1], columns[: len(src) - 1])


def _shares(tokenizer: Tokenizer, text: str, unit: str, output: list[int] | None) -> np.ndarray:
    """Of a text, or of the text of a model's output."""
    if output is not None:
        return shares(labels(tokenizer, output), tokenizer.decode(output), unit)
    return shares(labels(tokenizer, tokenizer.encode(text)), text, unit) if text.strip() else np.zeros((0, 0))


def _with_output(model: Seq2Seq, decode: Decode, batch: Batch, tokenizer: Tokenizer, sources: Sequence[str]) -> Batch:
    """The batch with the best hypotheses instead of the references."""
    gold = answer(decode, model, batch, tokenizer, sources).hypotheses.tokens[:, 0]  # (B, T)
    tgt = torch.cat([torch.full_like(gold[:, :1], BOS), gold[:, :-1]], dim=1)
    tgt = tgt.masked_fill((gold == PAD), PAD)
    return batch._replace(tgt=tgt, gold=gold)


def of_output(model: "Translator", source: str, ids: list[int], limit: int | None = None) -> list[Link]:
    """The links of one sentence and a hypothesis of it (ids, with EOS), from the mean of all cross-attention."""
    tokens = model.src_tokenizer.encode(source)[:limit]
    if not tokens or len(ids) < 2:
        return []
    weights = model.attention(tokens, ids).get("cross")
    if weights is None:
        raise DuetError(NO_ATTENTION)
    text = model.tgt_tokenizer.decode(ids)
    columns = _shares(model.src_tokenizer, source, unit_of([source], "auto"), None)[: len(tokens)]
    rows = _shares(model.tgt_tokenizer, text, unit_of([text], "auto"), ids[:-1])
    if not columns.size or not rows.size:
        return []
    return links(choose(merge(weights.double().numpy(), rows, columns)))


def align(sentences: Iterator[Sentence], count: int, *, layer: int | None, head: int | None, shift: int) -> list[list[Link]]:
    """The links of each of `count` lines, in their order; none where a line has no text."""
    found: list[list[Link]] = [[] for _ in range(count)]
    for sentence in sentences:
        found[sentence.place] = links(choose(merge(*sentence[1:], shift), layer, head))
    return found


SHIFTS = (-1, 0, 1)


def search(sentences: Iterator[Sentence], golds: Sequence[Gold]) -> list[dict]:
    """layer, head (None: the mean of all), shift, aer, precision and recall of every combination, the best first.

    The best one is picked by the very links that it is scored on: to report a number, pick on another split.
    """
    totals: dict[int, np.ndarray] = {}  # shift -> (L + 1, H + 1, 3): found, found_sure, found_possible
    for sentence in sentences:
        gold = golds[sentence.place]
        size = (sentence.rows.shape[1], sentence.columns.shape[1])
        sure, possible = _table(gold.sure, size), _table(gold.possible, size)
        for shift in SHIFTS:
            weights = with_means(merge(*sentence[1:], shift))  # (L + 1, H + 1, J, I)
            best = weights.argmax(axis=-1)  # (L + 1, H + 1, J)
            there = weights.max(axis=-1) > 0
            words = np.arange(size[0])
            counts = np.stack([there.sum(-1), (sure[words, best] & there).sum(-1), (possible[words, best] & there).sum(-1)], -1)
            totals[shift] = totals.get(shift, 0) + counts
    all_sure = sum(len(gold.sure) for gold in golds)
    results = []
    for shift, table in totals.items():
        layers, heads = table.shape[0] - 1, table.shape[1] - 1
        for layer, head in np.ndindex(layers + 1, heads + 1):
            if (layer == layers and layers == 1) or (head == heads and heads == 1):
                continue  # the mean of one is that one
            found, found_sure, found_possible = map(int, table[layer, head])
            place = {"layer": None if layer == layers else layer, "head": None if head == heads else head, "shift": shift}
            results.append(place | Counts(found, all_sure, found_sure, found_possible).scores())
    return sorted(results, key=lambda result: result["aer"])


def _table(pairs: frozenset[Link], size: tuple[int, int]) -> np.ndarray:
    """(J, I) bool: where the links are."""
    table = np.zeros(size, dtype=bool)
    for source, target in pairs:
        table[target, source] = True
    return table
