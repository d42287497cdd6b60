# make demo and make test do everything on a fresh machine with Python 3.10 or newer.
#   TORCH=cpu   takes the CPU-only build of torch from PyTorch's own index (the usual wheel brings gigabytes of CUDA)
#   PYTHON=…    another interpreter than python3
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt
TORCH ?=

.PHONY: demo test install install-dev lint clean

demo: $(VENV)/installed
	$(BIN)/python train.py
	$(BIN)/python evaluate.py ckpt=runs/latest/checkpoints/best.ckpt split=test decode=beam heatmaps=2
	$(BIN)/python evaluate.py ckpt=runs/latest/checkpoints/best.ckpt split=test_long decode=beam
	@run=$$(readlink -f runs/latest) && echo && echo "checkpoint   $$run/checkpoints/best.ckpt" && \
	  echo "heatmaps     $$run/heatmaps, $$run/evaluate/test-beam/heatmaps" && \
	  echo "TensorBoard  $(BIN)/tensorboard --logdir runs/grammar"

test: $(VENV)/installed-dev lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .

install: $(VENV)/installed
install-dev: $(VENV)/installed-dev

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/torch: constraints.txt | $(VENV)/bin/python
ifeq ($(TORCH),cpu)
	$(PIP) torch --index-url https://download.pytorch.org/whl/cpu
else
	$(PIP) torch
endif
	touch $@

$(VENV)/installed: pyproject.toml constraints.txt $(VENV)/torch
	$(PIP) -e .
	touch $@

$(VENV)/installed-dev: pyproject.toml constraints.txt $(VENV)/torch
	$(PIP) -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache
