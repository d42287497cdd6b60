"""Scores of text, by sacreBLEU (Post 2018); each comes with the signature that says how it was computed."""

import unicodedata
from collections.abc import Sequence

from sacrebleu.metrics import BLEU, CHRF, TER

from data.errors import DuetError

TOKENIZE = ("auto", "13a", "char", "zh", "intl", "none")


def is_chinese(lines: Sequence[str]) -> bool:
    """Whether most letters are Chinese characters: words are not set apart by blanks then."""
    letters = [char for line in lines[:1000] for char in line if char.isalpha()]
    return sum("CJK" in unicodedata.name(char, "") for char in letters) > len(letters) / 2


def tokenizer_for(references: Sequence[str], tokenize: str = "auto") -> str:
    """The name of sacreBLEU's tokenizer; auto is `char` for Chinese references and `13a` for others."""
    if tokenize not in TOKENIZE:
        raise DuetError(f"metrics.bleu.tokenize is {tokenize!r}: choose {', '.join(TOKENIZE)}")
    return ("char" if is_chinese(references) else "13a") if tokenize == "auto" else tokenize


def bleu_for(references: Sequence[str], *, tokenize: str = "auto", lowercase: bool = False) -> BLEU:
    """sacreBLEU's BLEU, with `tokenizer_for` these references."""
    return BLEU(tokenize=tokenizer_for(references, tokenize), lowercase=lowercase)


def _check(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise DuetError(f"{len(hypotheses)} hypotheses cannot be scored against {len(references)} references")
    if not references:
        raise DuetError("there is nothing to score: 0 sentences")


def quick_scores(
    hypotheses: Sequence[str], references: Sequence[str], *, tokenize: str = "auto", lowercase: bool = False
) -> dict:
    """bleu and chrf, both 0–100: what is looked at while training."""
    _check(hypotheses, references)
    bleu = bleu_for(references, tokenize=tokenize, lowercase=lowercase)
    return {
        "bleu": bleu.corpus_score(hypotheses, [references]).score,
        "chrf": CHRF().corpus_score(hypotheses, [references]).score,
    }


def scores(hypotheses: Sequence[str], references: Sequence[str], *, tokenize: str = "auto", lowercase: bool = False) -> dict:
    """All scores and signatures of one system.

    bleu, chrf, ter, exact_match are 0–100; length_ratio is BLEU's: tokens of the hypotheses / tokens of the references.
    Raises DuetError where the numbers of lines differ, or are 0 (sacreBLEU would score what fits).
    """
    _check(hypotheses, references)
    bleu, chrf = bleu_for(references, tokenize=tokenize, lowercase=lowercase), CHRF()
    chinese = is_chinese(references)
    ter = TER(normalized=chinese, asian_support=chinese)
    result = bleu.corpus_score(hypotheses, [references])
    return {
        "bleu": result.score,
        "bleu_signature": str(bleu.get_signature()),
        "chrf": chrf.corpus_score(hypotheses, [references]).score,
        "chrf_signature": str(chrf.get_signature()),
        "ter": ter.corpus_score(hypotheses, [references]).score,
        "ter_signature": str(ter.get_signature()),
        "exact_match": 100 * sum(h == r for h, r in zip(hypotheses, references)) / len(references),
        "length_ratio": result.sys_len / max(result.ref_len, 1),
        "sentences": len(references),
    }
