"""The examples of docs/decoding.md: python -m docs.decoding ckpt=PATH text="A sentence."

Prints a table in Markdown: searches with their options, and what each makes of the sentence.
"""

from tasks import cli  # isort: skip  # first: `tasks` sets what torch reads when it is loaded

import sys

from tasks.build import Translator
from tasks.using import loaded, search_of

CASES = [
    "decode=greedy",
    "decode=beam",
    "decode=beam decode.n_best=3",
    "decode=beam decode.size=20 decode.n_best=2 decode.length_penalty=0",
    "decode=beam decode.size=20 decode.n_best=2 decode.length_penalty=2",
    "decode=beam decode.size=20 decode.n_best=2 decode.length_penalty=average",
    "decode=beam decode.coverage_penalty=0.5",
    "decode=beam decode.size=6 decode.n_best=6",
    "decode=beam decode.size=6 decode.n_best=6 decode.groups=3 decode.diversity=1",
    "decode=beam decode.size=6 decode.n_best=6 decode.groups=3 decode.diversity=4",
    "decode=sample decode.seed=1",
    "decode=sample decode.seed=1 decode.temperature=0.5",
    "decode=sample decode.seed=1 decode.top_k=5",
    "decode=sample decode.seed=1 decode.top_p=0.8",
    "decode=greedy decode.min_len=20",
    "decode=greedy decode.min_len=20 decode.no_repeat_ngram=2",
    "decode=greedy decode.min_len=20 decode.repetition_penalty=1.5",
    "decode=greedy decode.max_len_a=0 decode.max_len_b=6",
    "decode=greedy decode.unk=true",
]


def table(model: Translator, text: str) -> str:
    rows = ["| options | score | translation |", "| --- | --- | --- |"]
    cli.offer(model.config)
    for case in CASES:
        config = cli.compose("translate", ["ckpt=none", *case.split()])
        for place, found in enumerate(model.search([text], decode=search_of(config, model))[0]):
            options = " ".join(f"`{word}`" for word in case.split()) if place == 0 else ""
            rows.append(f"| {options} | {found.score:.2f} | {found.text} |")
    return "\n".join(rows)


def main() -> None:
    words = cli.readable(sys.argv[1:])
    if not cli.begin(__doc__, words):
        return
    text = cli.plain(words, {"ckpt": None, "text": None})[1]["text"]
    model = loaded(words)
    print(f"{text}\n\n{table(model, text)}\n\nThe likeliest next tokens, at a translation's beginning and in its middle:\n")
    best = model.search([text])[0][0]
    for prefix in ("", model.tgt_tokenizer.decode(best.ids[: len(best.ids) // 2])):
        found = ", ".join(f"`{piece}` {probability:.2f}" for piece, probability in model.alternatives(text, prefix))
        print(f"- “{prefix}”: {found}")


if __name__ == "__main__":
    sys.exit(cli.run(main, "translate"))
