#!/usr/bin/env bash
# Tests of tensors in an environment of their own: with CUDA's libraries, torch takes gigabytes. PIP_EXTRA_INDEX_URL or
# PIP_FIND_LINKS tells pip of an index or folder with the processor's wheel.
set -euo pipefail
cd "$(dirname "$0")/.."
python3 -m venv .venv-torch
.venv-torch/bin/pip install -q -c constraints.txt -e '.[torch,sb3,rsl-rl]' pytest pytest-xdist hypothesis typer
.venv-torch/bin/python -m pytest -n 0 tests/test_torch.py tests/test_torch_gpu.py tests/test_documents.py tests/test_gym.py tests/test_gym_wrappers.py -k 'torch'
