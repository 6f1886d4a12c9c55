#!/usr/bin/env bash
# Make .venv with the first Python >= 3.11 found. "run" installs what the offline
# commands need, "all" also what the operator, the tests and the checks need;
# "newest" installs the same as "all" into .venv-newest, without constraints.
set -euo pipefail
cd "$(dirname "$0")/.."

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11; do
    if [ -n "$candidate" ] &&
      "$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  echo "Python 3.11 or newer with venv and ensurepip is needed (Debian and Ubuntu: apt install python3-venv);" \
    "set PYTHON=/path/to/python3" >&2
  exit 1
}

python=$(find_python)
exec "$python" scripts/make_venv.py "${1:-all}"
