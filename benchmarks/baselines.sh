#!/usr/bin/env bash
# The trainings and the tables of docs/baselines.md, one after the other, the same minutes for each model:
#   benchmarks/baselines.sh grammar            nine models on the built-in corpus, 4 minutes each
#   benchmarks/baselines.sh multi30k FOLDER    three models on Multi30k, 15 minutes each
# A model that makes its steps faster makes more of them, so that its learning rate falls to 0 within the same time.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}

train() {
  printf '\n$ train.py %s\n' "$*"
  "$python" train.py test=false "$@"
}

case ${1:-} in
grammar)
  common=(name=baselines trainer.max_time=00:00:04:00)
  for model in rnn_dot rnn_additive rnn_general rnn_local_p rnn_local_m rnn_hard; do
    train model=$model "${common[@]}"
  done
  for model in rnn_none rnn_aligned; do
    train model=$model trainer.max_steps=1000 trainer.val_check_interval=500 "${common[@]}"
  done
  train model=transformer_tiny trainer.max_steps=1200 trainer.val_check_interval=600 "${common[@]}"
  "$python" -m tasks.compare runs/baselines split=test alignment.search=true
  "$python" -m tasks.compare runs/baselines split=test_long baseline=rnn_none
  ;;
multi30k)
  common=(experiment=multi30k data.root="$2" name=baselines_multi30k trainer.max_time=00:00:15:00)
  train model=rnn_additive "${common[@]}"
  train model=rnn_none trainer.max_steps=2800 trainer.val_check_interval=700 "${common[@]}"
  train model=transformer_tiny trainer.max_steps=2500 trainer.val_check_interval=625 "${common[@]}"
  "$python" -m tasks.compare runs/baselines_multi30k split=test
  ;;
*)
  sed -n '2,5s/^# \?//p' "$0" >&2
  exit 2
  ;;
esac
