"""Files made to exhaust whoever reads them: each is refused in little memory, by place and reason."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError

from generation.forms import ShallowJSON
from generation.importers import healthbench, medhallu, mesh, pmc_patients, pubmedqa
from generation.importers.base import Importer, Refusal, Row, WrongFormat
from tests.generation.rows import array, entry, hub, jsonl, keyed, pair

ROOT = Path(__file__).parents[2]
IMPORTERS = [healthbench, medhallu, mesh, pmc_patients, pubmedqa]
DEEP = "[" * 100_000 + "]" * 100_000  # 200 KB, of which a parser that keeps its path makes 23 GB

READ_ALL = """
import resource, sys
from pathlib import Path
from generation import importers
from generation.importers.base import Layout, WrongFormat
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in map(Path, sys.argv[1:]):
    for name in importers.available():
        importer = importers.load(name)
        try:
            importer.sniff(path)
        except WrongFormat:
            pass
        for layout in ("json-v2", "json-object", "jsonl"):
            try:
                list(importer.rows(path, Layout(layout)))
            except WrongFormat:
                pass
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_nesting_without_end_costs_nothing(tmp_path: Path) -> None:
    attacks = [
        DEEP,
        f'[{{"patient_uid": "1-1", "patient": "He had fever.", "age": {DEEP}}}]',
        f'{{"1": {DEEP}}}',
        '{"1": ' + '{"a":' * 100_000,
        f'{{"prompt_id": "1", "prompt": {DEEP}}}',
        f'{{"Question": "Why?", "Knowledge": {DEEP}}}',
    ]
    paths = [tmp_path / str(number) for number in range(len(attacks))]
    for path, attack in zip(paths, attacks, strict=True):
        path.write_text(attack)
    done = subprocess.run(
        [sys.executable, "-c", READ_ALL, *map(str, paths)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) < 50, "MB"


def nested(levels: int) -> object:
    return json.loads("[" * levels + "]" * levels)


@pytest.mark.parametrize(
    ("importer", "make", "around"),
    [
        (pmc_patients, lambda value: array({"patient_uid": "1-1", "patient": "He had fever.", "more": value}), 2),
        (pubmedqa, lambda value: keyed(entry(MORE=value)), 2),
        (pubmedqa, lambda value: jsonl(hub(more=value)), 1),
        (medhallu, lambda value: jsonl(pair(more=value)), 1),
    ],
    ids=["array", "object", "lines", "lines of pairs"],
)
def test_a_hundred_levels_are_read_and_one_more_is_not(tmp_path: Path, importer: Importer, make, around: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(make(nested(100 - around)))
    layout = importer.sniff(path)
    [row] = importer.rows(path, layout)
    assert isinstance(row, Row), row
    path.write_bytes(make(nested(101 - around)))
    with pytest.raises(WrongFormat):
        importer.sniff(path)
    [refusal] = importer.rows(path, layout)
    assert isinstance(refusal, Refusal)
    assert "more than 100 deep" in refusal.reason


def test_records_before_the_one_that_is_too_deep_are_kept(tmp_path: Path) -> None:
    good = {"patient_uid": "1-1", "patient": "He had fever."}
    path = tmp_path / "file"
    path.write_bytes(array(good, {**good, "patient_uid": "2-1", "more": nested(99)}, {**good, "patient_uid": "3-1"}))
    row, refusal = pmc_patients.rows(path, pmc_patients.sniff(path))
    assert isinstance(row, Row)
    assert refusal == Refusal("record 2", refusal.reason)
    assert "more than 100 deep" in refusal.reason


def test_a_form_takes_no_deep_json() -> None:
    with pytest.raises(ValidationError, match="nested too deeply"):
        ShallowJSON().clean(DEEP)
    assert ShallowJSON(required=False).clean("") is None
    assert ShallowJSON().clean('{"tries": [1]}') == {"tries": [1]}
