"""What several systems' outputs for the same sentences say: tests of their differences, scores by length, where they differ.

Tests are sacreBLEU's own (`sacrebleu.significance`).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sacrebleu.metrics import CHRF
from sacrebleu.significance import PairedTest

from tasks.metrics import bleu_for

Outputs = Mapping[str, Sequence[str]]
"""name of a system -> its hypotheses, a line for each reference."""

METRICS = ("bleu", "chrf")


class Test(NamedTuple):
    """One system against the baseline: score - the baseline's, and the p-values of both tests."""

    name: str
    metric: str
    difference: float
    p_bootstrap: float
    p_randomization: float


class Significance(NamedTuple):
    """half_widths: name -> half the width of BLEU's 95 % bootstrap interval. signatures: by test and metric."""

    half_widths: dict[str, float]
    tests: list[Test]
    signatures: dict[str, str]


def significance(
    outputs: Outputs, references: Sequence[str], *, baseline: str, bleu: dict, bootstrap: int = 1000, randomization: int = 10000
) -> Significance:
    """Paired bootstrap resampling (Koehn 2004) and approximate randomisation (Riezler and Maxwell 2005), two-sided.

    bleu: options of `bleu_for`. bootstrap, randomization: resamples and trials; no p-value is below 1 / (1 + their number).
    """
    systems = [(baseline, outputs[baseline]), *((name, lines) for name, lines in outputs.items() if name != baseline)]
    found, signatures = {}, {}
    for kind, samples in (("bs", bootstrap), ("ar", randomization)):
        metrics = {"BLEU": bleu_for(references, **bleu), "chrF": CHRF()}
        known, results = PairedTest(systems, metrics, [references], test_type=kind, n_samples=samples)()
        for metric, title in zip(METRICS, [key for key in results if key != "System"]):
            found[kind, metric] = results[title]
            signatures[f"{metric} {'bootstrap' if kind == 'bs' else 'randomization'}"] = str(known[title])
    half_widths = {name: result.ci for (name, _), result in zip(systems, found["bs", "bleu"])}
    tests = []
    for place, (name, _) in enumerate(systems[1:], 1):
        for metric in METRICS:
            before, bs, ar = found["bs", metric][0], found["bs", metric][place], found["ar", metric][place]
            difference = bs.score - before.score
            # where nothing differs, sacreBLEU's count of larger differences is 0, and its p-value the smallest there is
            p_values = (bs.p_value, ar.p_value) if difference else (1.0, 1.0)
            tests.append(Test(name, metric, float(difference), *map(float, p_values)))
    return Significance({name: float(width) for name, width in half_widths.items()}, tests, signatures)


# By length


class Bucket(NamedTuple):
    """Sentences whose length is from `first` to `last`, and their places."""

    first: int
    last: int
    places: list[int]


SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def buckets(
    lengths: Sequence[int], *, most: int = 8, least: int = 10, weights: Sequence[int] | None = None
) -> list[Bucket]:
    """Sentences by length, in steps as fine as `most` buckets allow; one with fewer than `least` sentences joins its neighbour.

    weights: what each sentence counts for as one of `least` (None: 1); those with 0 fill no bucket.
    Lengths of 0 are left out. A bucket's first and last are bounds of its steps, at the ends of what there is.
    """
    real = {place: length for place, length in enumerate(lengths) if length > 0}
    if not real:
        return []
    size = next((size for size in SIZES if len({(n - 1) // size for n in real.values()}) <= most), max(real.values()))
    steps: dict[int, list[int]] = {}
    for place, length in real.items():
        steps.setdefault((length - 1) // size, []).append(place)
    joined: list[Bucket] = []

    def size_of(places: list[int]) -> int:
        return len(places) if weights is None else sum(weights[place] for place in places)

    for step in sorted(steps):
        if joined and (size_of(joined[-1].places) < least or size_of(steps[step]) < least and step == max(steps)):
            before = joined.pop()
            joined.append(Bucket(before.first, (step + 1) * size, before.places + steps[step]))
        else:
            joined.append(Bucket(step * size + 1, (step + 1) * size, steps[step]))
    if len(joined) > 1 and size_of(joined[-1].places) < least:
        last, before = joined.pop(), joined.pop()
        joined.append(Bucket(before.first, last.last, before.places + last.places))
    shortest, longest = min(real.values()), max(real.values())
    return [
        Bucket(max(first, shortest) if i == 0 else first, min(last, longest) if i == len(joined) - 1 else last, sorted(places))
        for i, (first, last, places) in enumerate(joined)
    ]


def bleu_by_length(
    outputs: Outputs, references: Sequence[str], lengths: Sequence[int], *, bleu: dict, bootstrap: int = 200
) -> list[dict]:
    """first, last, sentences, and bleu and half_width by system, of each bucket. Tokenized as all references are.

    BLEU needs 4-grams: a bucket has ten sentences or more whose references have them, so that perfect output scores 100.
    """
    result, tokenize = [], bleu_for(references, **bleu).tokenizer
    long_enough = [int(len(tokenize(reference).split()) >= 4) for reference in references]
    for first, last, places in buckets(lengths, weights=long_enough):
        part = [(name, [lines[i] for i in places]) for name, lines in outputs.items()]
        metrics = {"BLEU": bleu_for(references, **bleu)}
        _, found = PairedTest(part, metrics, [[references[i] for i in places]], test_type="bs", n_samples=bootstrap)()
        scores = dict(zip(outputs, found["BLEU"]))
        result.append({
            "first": first,
            "last": last,
            "sentences": len(places),
            "bleu": {name: float(score.score) for name, score in scores.items()},
            "half_width": {name: float(score.ci) for name, score in scores.items()},
        })  # fmt: skip
    return result


# By sentence


def examples(outputs: Outputs, sources: Sequence[str], references: Sequence[str], count: int) -> list[dict]:
    """The sentences on which the systems differ most, by the distance between the best and the worst sentence chrF.

    line (from 1), source, reference, spread, and the different outputs, best first: text, chrf, and whose it is. Of a
    single system: the sentences furthest from the reference.
    """
    metric, found = CHRF(), []
    for place, reference in enumerate(references):
        written: dict[str, list[str]] = {}
        for name, lines in outputs.items():
            written.setdefault(lines[place], []).append(name)
        if len(written) < 2 <= len(outputs) or not sources[place].strip():
            continue
        scores = {text: metric.sentence_score(text, [reference]).score for text in written}
        spread = max(scores.values()) - min(scores.values()) if len(outputs) > 1 else 100 - min(scores.values())
        texts = sorted(written, key=lambda text: -scores[text])
        shown = [{"text": text, "chrf": scores[text], "names": written[text]} for text in texts]
        found.append({"line": place + 1, "source": sources[place], "reference": reference, "spread": spread, "outputs": shown})
    return sorted(found, key=lambda example: (-example["spread"], example["line"]))[:count]
