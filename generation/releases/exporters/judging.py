"""What formats share that have their tool ask a judge, and count as MHB counts."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from generation.releases.exporters import programs
from generation.releases.exporters.base import About, LinesExporter

FIELDS = "judging.json"


class JudgingExporter(LinesExporter):
    """A format whose tool judges: `judging.json`, `mhb_judging.py` and the tool's own programs.

    `programs`: the names of its files, with those of their originals in the folder `programs`.
    """

    asks = judges = True
    programs: Mapping[str, str] = {}

    def companion_files(self, folder: Path, about: About) -> list[Path]:
        """Write how the judge is asked and its verdicts are counted, and the programs."""
        fields = folder / FIELDS
        fields.write_text(json.dumps(about["judging"], indent=1, sort_keys=True) + "\n", encoding="utf-8", newline="\n")
        paths = [fields]
        for target, original in {"mhb_judging.py": "mhb_judging.py", **self.programs}.items():
            paths.append(folder / target)
            shutil.copyfile(Path(programs.__file__).parent / original, paths[-1])
        return paths
