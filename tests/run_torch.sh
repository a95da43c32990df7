#!/usr/bin/env bash
# Tests of tensors in an environment of their own: with CUDA's libraries, torch takes gigabytes, so the processor's wheel.
set -euo pipefail
cd "$(dirname "$0")/.."
python3 -m venv .venv-torch
.venv-torch/bin/pip install -q torch --index-url https://download.pytorch.org/whl/cpu
.venv-torch/bin/pip install -q -c constraints.txt -e '.[torch]' pytest hypothesis
.venv-torch/bin/python -m pytest tests/test_torch.py
