"""What formats share that have their tool ask a judge, and count as MHB counts."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from generation.llm import reasoning
from generation.releases import programs
from generation.releases.exporters.base import About, LinesExporter
from generation.releases.exporters.manifest import sha256_of

FIELDS = "judging.json"
TASK = "@@TASK@@"  # in a program: the name of its task
# Characters of the release's digest in a task's name: enough to tell releases apart.
DIGEST = 12


def task_name(judging: Mapping[str, Any]) -> str:
    """The name of a release's task, which no other has: benchmark, release, version and digest."""
    name = f"{judging['benchmark']}_{judging['release']}_{judging['sha256'][:DIGEST]}"
    return re.sub(r"\W+", "_", name, flags=re.ASCII).lower()


class JudgingExporter(LinesExporter):
    """A format whose tool judges: `judging.json`, the tool's own programs, and what they share.

    `mhb_judging.py` asks the judge and counts; `reasoning.py`, the site's own module, tells an
    answer from the thoughts before it. `programs`: the names of the tool's programs, with those of
    their originals in the folder `programs`.
    """

    asks = judges = True
    programs: Mapping[str, str] = {}

    def companion_files(self, folder: Path, about: About) -> list[Path]:
        """Write how the judge is asked and its verdicts are counted, and the programs."""
        samples = {"file": self.lines, "sha256": sha256_of(folder / self.lines)}
        task = task_name(about["judging"])
        judging = {**about["judging"], "task": task, "samples": samples}
        fields = folder / FIELDS
        fields.write_text(json.dumps(judging, indent=1, sort_keys=True) + "\n", encoding="utf-8", newline="\n")
        originals = Path(programs.__file__).parent
        copied = {target: originals / original for target, original in self.programs.items()}
        copied |= {"mhb_judging.py": originals / "mhb_judging.py", "reasoning.py": Path(reasoning.__file__)}
        for target, original in copied.items():
            program = original.read_text(encoding="utf-8").replace(TASK, task)
            (folder / target).write_text(program, encoding="utf-8", newline="\n")
        return [fields, *(folder / target for target in copied)]
