#!/usr/bin/env bash
# Resolve the newest versions that pyproject.toml allows and write them to constraints.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install --quiet --upgrade pip
"$scratch/venv/bin/python" -m pip install --quiet ".[console]" --group test --group check --group release
{
  echo "# Exact versions of everything the project installs, direct or not. Regenerate with \`make constraints\`."
  "$scratch/venv/bin/python" -m pip freeze --all --exclude plimsoll --exclude setuptools | sort -f
} > constraints.txt
"$scratch/venv/bin/python" scripts/lock_hashes.py
