#!/usr/bin/env bash
# A checkpoint is all that an evaluation needs: the newest run's best.ckpt, copied to an empty folder, must give the same
# hypotheses and the same BLEU there, with batches of 1 and of 64.
#   SPLIT, LIMIT and DATA choose what is scored.
set -euo pipefail
root=$(pwd)
python="$root/.venv/bin/python"
data=$(realpath "${DATA:-../shared/data/multi30k}")
split=${SPLIT:-test_2016_flickr}
options=(data.root="$data" split="$split" decode=beam ${LIMIT:+limit=$LIMIT})
ckpt=$(realpath runs/latest)/checkpoints/best.ckpt
alone=$(mktemp -d)
trap 'rm -rf "$alone"' EXIT
cp "$ckpt" "$alone/"
"$python" evaluate.py ckpt="$ckpt" "${options[@]}" out="$alone/there"
cd "$alone"
for size in 1 64; do
  "$python" "$root/evaluate.py" ckpt=best.ckpt "${options[@]}" batch_size=$size out="$size"
  cmp there/hypotheses.txt "$size/hypotheses.txt"
done
"$python" - <<'PY'
import json
scores = [json.load(open(f"{folder}/metrics.json"))["bleu"] for folder in ("there", "1", "64")]
assert len(set(scores)) == 1, scores
print(f"the same {scores[0]:.2f} BLEU and the same hypotheses in the run's folder and alone, with batches of 1 and of 64")
PY
