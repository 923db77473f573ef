"""Locust replaces parts of the standard library: it stays in the process that makes the load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
HEAVY = ("gevent", "locust", "matplotlib", "geventhttpclient")
LIST_HEAVY = f"""
import sys, socket
import loadtest.__main__, loadtest.compare
print(sorted(set(sys.modules) & set({HEAVY!r})), socket.socket.__module__)
"""


def test_the_command_line_loads_neither_locust_nor_the_plots() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIST_HEAVY], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[] socket\n"


def test_only_the_generator_imports_them() -> None:
    importers = {
        path.name
        for path in (ROOT / "loadtest").glob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith(("import gevent", "import locust", "from gevent", "from locust "))
        or line.startswith(("from locust.", "from geventhttpclient"))
    }
    assert importers == {"locustfile.py", "sender.py"}
