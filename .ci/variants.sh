#!/usr/bin/env bash
# Every kind of data, position, norm and size on real corpora: a short training, then an evaluation from the checkpoint.
#   DATA: the folder of the corpora; STEPS: of each training (transformer_base: 20); EXTRA: further overrides;
#   ONLY: a pattern that the names of the cases to run match
set -euo pipefail
data=$(realpath "${DATA:-../shared/data}")
steps=${STEPS:-50}
read -r -a extra <<<"${EXTRA:-}"
python=.venv/bin/python
saved=$(mktemp -d)
trap 'rm -rf "$saved"' EXIT

go() { # name, split, overrides…
  local name=$1 split=$2
  shift 2
  [[ $name =~ ${ONLY:-.} ]] || return 0
  printf '\n== %s ==\n' "$name"
  $python train.py name=variants trainer.max_steps="$steps" trainer.val_check_interval="$steps" trainer.limit_val_batches=4 \
    callbacks.samples.count=1 test=false hydra.run.dir="$saved/run" "$@" "${extra[@]}"
  $python evaluate.py ckpt="$saved/run/checkpoints/best.ckpt" split="$split" decode=greedy limit=128
  rm -r "$saved/run"
}

go "Multi30k fr-en, post-norm, learned positions" test_2016_flickr experiment=multi30k data.root="$data/multi30k" \
  data.source_column=fr data.target_column=en model.norm=post model.positions=learned
go "Tatoeba en-zh, characters on the target" test data=tsv data.root="$data/tatoeba_zh_en" data.target_column=zh \
  tokenizer/target=characters tokenizer.vocab_size=4000 model.tie=decoder
go "classical to modern Chinese, .tsv.gz, rotary positions" test data=tsv data.root="$data/classical_modern" \
  data.source_column=lzh data.target_column=zh tokenizer=characters model.positions=rotary
$python - "$data" "$saved" <<'PY'
import sys
from datasets import Dataset, DatasetDict

data, saved = sys.argv[1:]
read = lambda name: [line.rstrip("\n") for line in open(f"{data}/multi30k/{name}", encoding="utf-8", newline="\n")]
files = {"train": "train", "validation": "val", "test": "test_2016_flickr"}
parts = {k: Dataset.from_dict({"translation": [{"en": e, "de": d} for e, d in zip(read(f + ".en"), read(f + ".de"))]}) for k, f in files.items()}
DatasetDict(parts).save_to_disk(f"{saved}/set")
PY
go "a folder written by save_to_disk" test data=hub data.root="$saved/set"
go "transformer_small, relative positions, local window" test_2016_flickr experiment=multi30k data.root="$data/multi30k" \
  model=transformer_small model.positions=relative model.window=8 optimizer.lr=0.001
steps=$((steps * 2 / 5))
go "transformer_base" test_2016_flickr experiment=multi30k data.root="$data/multi30k" model=transformer_base optimizer.lr=0.0005
printf '\nall variants trained and evaluated\n'
