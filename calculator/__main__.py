"""Write the static calculator: ``python -m calculator [FOLDER]``."""

from __future__ import annotations

import sys
from pathlib import Path

from calculator.building import ROOT, build
from calculator.pyodide_package import NotFetched


def main(words: list[str]) -> int:
    """Build into the named folder, by default ``build/calculator``. Return the exit status."""
    folder = Path(words[0]) if words else ROOT / "build" / "calculator"
    try:
        digests = build(folder)
    except NotFetched as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    size = sum((folder / name).stat().st_size for name in digests)
    sys.stdout.write(f"{folder}: {len(digests)} files, {size / 1e6:.1f} MB. Serve it from any static host.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
