"""Counts every number of a bundle again from its rows: `mhb-check`, and the command `verify_run`.

It verifies the checksum of every file and looks for files without one. It decides every judgment of
a panel again from its votes. It counts every number of numbers.json and report.json again from the
rows, with the arithmetic of MHB: rates, intervals, bounds, comparisons, changes, ranks, coverage,
the agreement of judges, the judge against physicians, corrected rates, variances, self-preference
and cost. A number that does not follow from the rows is a fault. It lists what it did not count
again. The rules are those of MHB's docs/statistics.md.
"""

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from evaluation.claims.claims import UNREAD, BenchmarkClaim, claims_of
from evaluation.interchange.programs import files, modules, report
from evaluation.interchange.programs.bundle_rows import Rows, rows_twice
from evaluation.interchange.programs.differences import Differences
from evaluation.numbers import values
from evaluation.numbers.late import pl
from evaluation.numbers.report_numbers import count
from generation.releases.programs.verify_trail import UNREADABLE

FORMAT = 4  # of the bundles that this program counts again
MAX_FAULTS_PRINTED = 200
MAX_FAULT = 300  # characters of one that quotes an error
READ_ERRORS = UNREADABLE
# The columns by which a row is there once, and those that say which rows these are.
ONCE: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "calls.jsonl": (("endpoint", "model", "prompt"), {}),
    "prompts.jsonl": (("role", "sample", "variant", "models"), {"role": "target"}),
}


def recount(folder: Path) -> tuple[Rows, dict[str, Any]]:
    """The rows of a bundle, and what its files of numbers should state, by name."""
    try:
        return _recount(folder)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ValueError(str(error)) from error


def _recount(folder: Path) -> tuple[Rows, dict[str, Any]]:
    rows = Rows(folder)
    labels: dict[str, str] = {}
    for view in rows.protocol.facets:
        labels |= view.values
    numbers = count(rows.frame, rows.protocol, rows.plan, labels, unranked=rows.run["selection"])
    stated = {"numbers.json": values.by_model(numbers), "report.json": report.report_of(rows, numbers, folder)}
    probe, validation = _stated_probe(folder), stated["report.json"]["validation"]
    frames = rows.fixed, rows.twins, rows.again
    found = claims_of(rows.frame, rows.votes, rows.protocol, rows.plan, numbers.comparisons, validation, probe, *frames)
    stated["claims.json"] = dict(found.as_json())
    return rows, json.loads(json.dumps(stated))


def _stated_probe(folder: Path) -> BenchmarkClaim:
    """The claim that rests on probes of the release, whose texts a bundle does not have."""
    try:
        for claim in files.document(folder / "claims.json")["claims"]:
            if claim["name"] == UNREAD:
                return BenchmarkClaim(**claim)
    except READ_ERRORS as error:
        raise ValueError(f"claims.json: {type(error).__name__} {error}") from error
    raise ValueError(f"claims.json: no claim {UNREAD}")


def _import_scores(root: Path) -> None:
    """Import the benchmarks' own rules of scoring, of those that came with this program."""
    for path in sorted(root.glob("mhb_site/benchmarks/*/score.py")):
        import_module(".".join(path.relative_to(root).with_suffix("").parts))


def other_program(folder: Path, root: Path) -> str:
    """Which program the numbers of a bundle belong to, if it is not this one; '' if it is."""
    path = folder / "run.json"
    named: dict[str, str] = {}
    if path.is_file():
        named = files.document(path).get("check") or {}
    own, theirs = modules.digest(root), named.get("sha256")
    if theirs in (None, own):
        return ""
    theirs = f"{named.get('name')} {named.get('version')} ({theirs:.12}…)"
    return f"These numbers belong to {theirs}; this is {modules.VERSION} ({own:.12}…)."


def title(run: Mapping[str, Any]) -> str:
    """What a site calls the bundle of a run, by its run.json."""
    return f"the bundle of run {run['run']} on release {run['release']['sha256'][:16]}"


def check(folder: Path) -> dict[str, Any]:
    """The faults, how many numbers were counted again, and which were not.

    Raises FileNotFoundError if there is no bundle of a run.
    """
    faults = files.faults(folder)
    if not (folder / "run.json").is_file() and not faults:
        raise FileNotFoundError("there is no run.json")
    try:
        if (written := files.document(folder / "run.json")["format"]) != FORMAT:
            if not (folder / "verify_run.py").is_file():
                faults.append(f"run.json: format {written}, and no verify_run.py that counts it again")
            skipped = {f"bundle of format {written}, which its own verify_run.py counts again": 1}
            return {"faults": faults, "checked": 0, "not_recomputed": skipped}
        rows, counted = recount(folder)
    except READ_ERRORS as error:
        faults.append(f"the numbers cannot be read ({type(error).__name__} {error})"[:MAX_FAULT])
        return {"faults": faults, "checked": 0, "not_recomputed": {}}
    faults += rows.faults + _faults_of_rows_twice(folder)
    checked = rows.checked
    for name, value in counted.items():
        try:
            compared = Differences(name, value, files.document(folder / name))
        except READ_ERRORS as error:
            faults.append(f"{name}: cannot be read ({type(error).__name__} {error})"[:MAX_FAULT])
            continue
        faults += compared.faults
        checked += compared.checked
    skipped = {}
    if rows.scored:
        skipped["scores of texts, which libraries computed"] = rows.scored
    return {"faults": faults, "checked": checked, "not_recomputed": skipped}


def _faults_of_rows_twice(folder: Path) -> list[str]:
    """Rows that are there twice. That a file is missing, SHA256SUMS tells."""
    faults: list[str] = []
    for name, (key, only) in ONCE.items():
        if (folder / name).is_file():
            try:
                faults += rows_twice(folder / name, key, **only)
            except READ_ERRORS as error:
                faults.append(f"{name}: cannot be read ({type(error).__name__} {error})"[:MAX_FAULT])
    return faults


def main(arguments: list[str], root: Path = Path(__file__).parents[3]) -> int:
    """Check the folder named in `arguments`, and return the exit code. `root`: of the modules."""
    [folder] = map(Path, arguments)
    try:
        _import_scores(root)
        result = check(folder)
    except READ_ERRORS as error:
        sys.stderr.write(f"There is no run to check in {folder}: {type(error).__name__} {error}\n")
        return 2
    other = ""
    with suppress(*READ_ERRORS):  # a run.json that cannot be read is a fault already
        other = other_program(folder, root)
    faults, skipped = result["faults"], result["not_recomputed"]
    output = faults[:MAX_FAULTS_PRINTED]
    output += [f"not computed again: {n} {name}" for name, n in skipped.items()]
    if other:
        output.append(other)
    if faults:
        output.append(f"{len(faults)} faults")
    elif not result["checked"]:
        output.append("No file is altered; no number was counted again.")
    else:
        output.append(f"Nothing is altered; {result['checked']} numbers agree.")
    sys.stdout.write("\n".join(output) + "\n")
    return min(len(faults), 1)
