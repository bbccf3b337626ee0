"""How fast the data sets behind MedHal are imported.

`python -m bench.imports [ROWS] [FORMAT ...] [--postgresql] [--json]`.

Rows are as long as the published ones: a clinical note has 12 extracted values, as MedHal's 327,568
statements from 22,000 notes imply, and an article 20,000 characters. Each import runs in its own
process on an empty site.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROWS = 30_000
WORDS = "a patient of middle age came in with pain of the left knee and fever since two days "


def prose(number: int, characters: int) -> str:
    """A text of this length, different for each number."""
    return (f"Record {number}: " + WORDS * (characters // len(WORDS) + 1))[:characters]


def medqa(number: int) -> dict[str, Any]:
    options = {letter: f"Drug {letter}{number} by mouth" for letter in "ABCDE"}
    fields = {"question": prose(number, 700) + " What is the next step?", "answer": options["B"], "options": options}
    return {**fields, "meta_info": "step1", "answer_idx": "B", "metamap_phrases": ["left knee"] * 25}


def medmcqa(number: int) -> dict[str, Any]:
    options = {f"op{letter}": f"Cause {letter} {number}" for letter in "abcd"}
    fields = {"id": f"00000000-0000-4000-8000-{number:012}", "subject_name": "Medicine", "topic_name": None}
    return {
        "question": f"Commonest cause of fever {number}?",
        "exp": prose(number, 400),
        "cop": number % 4,
        **options,
        **fields,
    }


def mednli(number: int) -> dict[str, Any]:
    label = ("entailment", "neutral", "contradiction")[number % 3]
    texts = {
        "sentence1": f"Note {number // 3}: creatinine was 1.7.",
        "sentence2": f"The patient {number} has kidney disease.",
    }
    return {"pairID": f"pair-{number}", "gold_label": label, **texts, "sentence1_parse": prose(number, 300)}


def acn(number: int) -> dict[str, Any]:
    summary = {
        "visit motivation": f"Pain {number % 331} of the knee",
        "patient information": {"age": f"{number % 97} years old", "sex": "Female", "ethnicity": "None"},
        "symptoms": [
            {"name of symptom": f"Pain {number % 997}", "time": f"{number % 90} days", "intensity of symptom": "None"},
            {"name of symptom": "Fever", "time": f"{number % 7} days", "details": f"worse at night {number}"},
        ],
        "treatments": [{"name": f"Drug {number % 499}", "dosage": f"{number % 50} mg"}],
        "diagnosis tests": [{"test": "MRI", "result": f"lesion of {number % 30} mm"}],
    }
    texts = {"note": prose(number, 3_000), "full_note": prose(number, 3_500), "conversation": prose(number, 4_000)}
    return {"idx": str(number), **texts, "summary": json.dumps(summary)}


LINES: dict[str, Callable[[int], dict[str, Any]]] = {"medqa": medqa, "medmcqa": medmcqa, "mednli": mednli, "acn": acn}
FORMATS = (*LINES, "sumpubmed", "medhal")


def write_files(format_name: str, folder: Path, count: int) -> Path:
    """Write a file or folder with `count` records of a format; returns its path."""
    if format_name == "medhal":
        from bench.medhal import write_rows

        write_rows(folder / "train.jsonl", count)
        return folder / "train.jsonl"
    if format_name == "sumpubmed":
        for part, name, size in (
            ("text", "text", 20_000),
            ("abstract", "abstract", 1_500),
            ("shorter_abstract", "abst", 700),
        ):
            (folder / part).mkdir()
            for number in range(count):
                (folder / part / f"{name}_{number}.txt").write_text(prose(number, size))
        return folder
    path = folder / "train.jsonl"
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(LINES[format_name](number)) + "\n" for number in range(count))
    return path


def measure(rows: int, database: str, formats: Sequence[str] = FORMATS) -> Iterator[Any]:
    """The speed and memory of the import of each format."""
    import tempfile

    from bench.core import at_least, at_most, without_goal
    from bench.medhal import site

    for format_name in formats:
        with site(database) as empty, tempfile.TemporaryDirectory() as folder:
            empty.run("migrate")
            line = empty.run("import", str(write_files(format_name, Path(folder), rows)), format_name)
        name = f"{database}: {line['rows']} rows of {format_name}"
        yield at_least(name, line["rows"] / line["seconds"], "rows a second", 5_000)
        yield without_goal(
            f"{name}: on the processor", line["rows"] / (line["cpu"] + line["database"]), "rows a second"
        )
        yield at_most(f"{name}: memory", line["memory"], "MB", 50)


def main() -> None:
    from bench.core import as_json, table

    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdecimal()]
    formats = [argument for argument in sys.argv[1:] if argument in FORMATS] or FORMATS
    database = "PostgreSQL" if "--postgresql" in sys.argv else "SQLite"
    rows = list(measure(numbers[0] if numbers else ROWS, database, formats))
    print(as_json(rows) if "--json" in sys.argv else table(rows))


if __name__ == "__main__":
    main()
