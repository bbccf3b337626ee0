"""How a release is cited."""

import re

from generation.models import Release


def bibtex(release: Release) -> str:
    """The BibTeX entry of a release; its note has the checksum, by which anyone can check it."""
    fields = {
        "title": f"{{{_plain(release.name)}, version {release.version}}}",
        "year": str(release.created_at.year),
        "version": str(release.version),
        "howpublished": f"Benchmark {_plain(release.benchmark)}, {release.size}",
        "note": f"SHA-256 {release.sha256}",
    }
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
    return "\n".join([f"@misc{{{release.name}-v{release.version},", *lines, "}"])


def _plain(text: str) -> str:
    """Text in which BibTeX and LaTeX read no command."""
    return re.sub(r"[&%$#_{}]", r"\\\g<0>", text)
