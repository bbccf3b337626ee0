"""Check a run: python verify_run.py [FOLDER]

FOLDER is an unpacked bundle of a run of MHB; default: the folder of this file. Needs Python 3.11,
numpy and scipy (requirements.txt), and no network. Prints each fault on a line. Exits with 1 if
there are faults, and with 2 if there is nothing to check.

It verifies the checksum of every file and looks for files without one. It decides every judgment of
a panel again from its votes. It counts every number of numbers.json and report.json again from the
rows, with the arithmetic of MHB that is in this folder: rates, intervals, bounds, comparisons,
changes, ranks, the agreement of judges, the judge against physicians, corrected rates, variances,
self-preference and cost. A number that does not follow from the rows is a fault. It lists what it
did not count again. The rules are those of MHB's docs/statistics.md.
"""

import json
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

if not __package__:  # in a bundle
    sys.dont_write_bytecode = True  # add no files to it
    sys.path.insert(0, str(Path(__file__).resolve().parent))
from evaluation.claims.claims import UNREAD, BenchmarkClaim, claims_of
from evaluation.interchange.programs import files, report
from evaluation.interchange.programs.bundle_rows import Rows
from evaluation.interchange.programs.differences import Differences
from evaluation.numbers import values
from evaluation.numbers.report_numbers import count

FORMAT = 4  # of the bundles that this program counts again
MAX_FAULTS_PRINTED = 200
READ_ERRORS = (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError)


def recount(folder: Path) -> tuple[Rows, dict[str, Any]]:
    """The rows of a bundle, and what its files of numbers should state, by name."""
    rows = Rows(folder)
    labels = {value: label for view in rows.protocol.facets for value, label in view.values}
    numbers = count(rows.frame, rows.protocol, rows.plan, labels, unranked=rows.run["selection"])
    stated = {"numbers.json": values.by_model(numbers), "report.json": report.report_of(rows, numbers, folder)}
    probe, validation = _stated_probe(folder), stated["report.json"]["validation"]
    found = claims_of(rows.frame, rows.votes, rows.protocol, rows.plan, numbers.comparisons, validation, probe)
    stated["claims.json"] = found.as_json()
    return rows, json.loads(json.dumps(stated))


def _stated_probe(folder: Path) -> BenchmarkClaim:
    """The claim that rests on probes of the release, whose texts a bundle does not have."""
    stated = files.document(folder / "claims.json")["claims"]
    return next(BenchmarkClaim(**claim) for claim in stated if claim["name"] == UNREAD)


def _import_scores(folder: Path) -> None:
    """Import the benchmark's own rules of scoring, of the modules that are beside this program."""
    for rate in files.document(folder / "run.json")["protocol"]["rates"]:
        module = rate["score"]["class"].partition(":")[0] if rate.get("score") else ""
        if module and Path(__file__).parent.joinpath(*module.split(".")).with_suffix(".py").is_file():
            import_module(module)


def title(run: Mapping[str, Any]) -> str:
    """What a site calls the bundle of a run, by its run.json."""
    return f"the bundle of run {run['run']} on release {run['release']['sha256'][:16]}"


def check(folder: Path) -> dict[str, Any]:
    """The faults, how many numbers were counted again, and which were not.

    Raises one of `READ_ERRORS`.
    """
    faults = files.faults(folder)
    try:
        if (written := files.document(folder / "run.json")["format"]) != FORMAT:
            skipped = {f"bundle of format {written}, which its own verify_run.py counts again": 1}
            return {"faults": faults, "checked": 0, "not_recomputed": skipped}
        rows, counted = recount(folder)
        compared = [Differences(name, value, files.document(folder / name)) for name, value in counted.items()]
    except READ_ERRORS as error:
        if not faults:
            raise
        faults.append(f"the numbers cannot be read ({type(error).__name__})")
        return {"faults": faults, "checked": 0, "not_recomputed": {}}
    return {
        "faults": [*faults, *rows.faults, *(fault for each in compared for fault in each.faults)],
        "checked": rows.checked + sum(each.checked for each in compared),
        "not_recomputed": {"scores of texts, which libraries computed": rows.scored} if rows.scored else {},
    }


def main(arguments: list[str]) -> int:
    """Check the folder named in `arguments`, and return the exit code."""
    folder = Path(arguments[0] if arguments else Path(__file__).parent)
    try:
        if not __package__:
            _import_scores(folder)
        result = check(folder)
    except READ_ERRORS as error:
        sys.stderr.write(f"There is no run to check in {folder}: {type(error).__name__} {error}\n")
        return 2
    faults, skipped = result["faults"], result["not_recomputed"]
    output = [*faults[:MAX_FAULTS_PRINTED], *(f"not computed again: {n} {name}" for name, n in skipped.items())]
    output.append(f"{len(faults)} faults" if faults else f"Nothing is altered; {result['checked']} numbers agree.")
    sys.stdout.write("\n".join(output) + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
