#!/usr/bin/env bash
# Make .venv with the first Python >= 3.11 found, and install the project with everything pinned.
set -euo pipefail
cd "$(dirname "$0")/.."

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11; do
    if [ -n "$candidate" ] && "$candidate" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  echo "Python 3.11 or newer with the venv module is needed; set PYTHON=/path/to/python3" >&2
  exit 1
}

[ -x .venv/bin/python ] || "$(find_python)" -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt pip
.venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
  --editable . --group test --group check
