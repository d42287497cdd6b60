"""The pictures of the README: what a model looks at while it translates one sentence.

    python train.py experiment=multi30k data.root=../shared/data/multi30k trainer.max_time=00:00:20:00
    python -m docs.pictures ckpt=runs/latest/checkpoints/best.ckpt out=docs/img/german.png \\
        text="A young man in a red shirt is playing the guitar."

    python train.py data=tsv data.root=../shared/data/couplets data.train_file=train_50k.tsv name=couplets \\
        tokenizer=characters data.source_column=upper data.target_column=lower data.max_tokens=768 model.layers=2 \\
        optimizer.lr=0.006 scheduler.warmup=400 scheduler.cooldown=0.5 trainer.max_steps=3000
    python -m docs.pictures ckpt=runs/latest/checkpoints/best.ckpt out=docs/img/chinese.png text=明月松间照

    benchmarks/couplets.sh
    python -m docs.pictures ckpt=runs/couplet_classical/transformer_tiny/…/checkpoints/best.ckpt out=docs/img/couplet.png \\
        text=两个黄鹂鸣翠柳
"""

import sys
from pathlib import Path

from data.errors import DuetError
from tasks import cli, heatmap, load
from tasks.build import make
from tasks.samples import Look


def main() -> None:
    words = cli.readable(sys.argv[1:])
    if not cli.begin(__doc__, words):
        return
    bare, options = cli.plain(words, {"ckpt": None, "text": None, "out": None})
    ckpt, text, out = options.values()
    if bare:
        raise DuetError(f"{bare[0]!r} is no option: write key=value")
    if not text.strip():
        raise DuetError("text is blank: give a sentence to translate")
    model = load(ckpt)
    look = Look(model, text, make(model.config["decode"]), model.max_source)
    if "cross" not in look.attention:
        raise DuetError(f"{ckpt} has no attention to draw")
    heatmap.save(heatmap.draw(look.attention["cross"], *look.labels["cross"], title=look.text), Path(out))
    print(f"{text}\n{look.text}\n{out}")


if __name__ == "__main__":
    sys.exit(cli.run(main, "evaluate"))
