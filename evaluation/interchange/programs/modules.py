"""The modules that check a bundle: named by version and digest, so that anyone can get the same."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

NAME, VERSION = "mhb-check", "0.5.0"  # as in check/pyproject.toml
# What counts, below the root of MHB, or of the distribution's copy of it.
MODULES = (
    "evaluation/metrics.py", "evaluation/panel.py", "evaluation/protocol.py",
    "evaluation/claims/claims.py", "evaluation/claims/measures.py",
    "evaluation/numbers/*.py", "evaluation/statistics/*.py", "evaluation/judges/numbers/*.py",
    "evaluation/interchange/programs/*.py", "generation/llm/types.py", "mhb_site/benchmarks/*/score.py",
    "review/quality/agreement.py", "review/rules/wilson_interval.py", "review/rules/shown_fields.py",
)  # fmt: skip


def paths(root: Path) -> Iterator[Path]:
    """The modules, in order of their names."""
    found: list[Path] = []
    for pattern in MODULES:
        found += root.glob(pattern)
    yield from sorted(found)


def digest(root: Path) -> str:
    """The SHA-256 of the modules with their names."""
    whole = hashlib.sha256()
    for path in paths(root):
        content = path.read_bytes()
        whole.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode())
        whole.update(content)
    return whole.hexdigest()
