#!/usr/bin/env bash
# The trainings and evaluations of docs/couplets.md: benchmarks/couplets.sh [FOLDER WITH couplets/ AND duilian/]
set -euo pipefail
cd "$(dirname "$0")/.."
data="${1:-../shared/data}"
python="${PYTHON:-.venv/bin/python}"
run() { printf '$ %s\n' "$*"; "$@"; }
newest() { ls -d runs/"$1"/"$2"/*/ | tail -1; }

for job in transformer_tiny:25 rnn_additive:10 tagger:5; do
  run "$python" train.py experiment=couplet_classical data.root="$data/couplets" data.train_file=train_50k model="${job%:*}" \
    trainer.max_time="00:00:${job#*:}:00" test=false
done
run "$python" train.py experiment=couplet_duilian data.root="$data/duilian" trainer.max_time=00:00:15:00 test=false

for model in transformer_tiny rnn_additive tagger; do
  run "$python" evaluate.py ckpt="$(newest couplet_classical $model)checkpoints/best.ckpt" decode=couplet
done
run "$python" evaluate.py ckpt="$(newest couplet_classical transformer_tiny)checkpoints/best.ckpt" decode=beam # without the rules
run "$python" evaluate.py ckpt="$(newest couplet_duilian transformer_tiny)checkpoints/best.ckpt" decode=couplet split=valid
run "$python" benchmarks/couplet_requests.py "$(newest couplet_classical transformer_tiny)checkpoints/best.ckpt" --root "$data/couplets"
