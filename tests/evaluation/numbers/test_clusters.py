"""What samples share is one cluster: an image, a document, a record; and what is read as empty."""

from dataclasses import replace

import pytest

from evaluation.interchange.files import RefusedRow, VerdictRow, _validated
from evaluation.numbers.frame import SAMPLE
from evaluation.runs.verdicts import cluster_unit, load_samples
from generation.models import Release
from generation.sources.importers import medhal, mednli, pmc_patients
from generation.sources.importers.tabular import File
from generation.sources.services import _shared
from review.rules.text import has_visible_text
from tests.engine import bare_release
from tests.evaluation.numbers.test_world import _version_of_its_own


@pytest.fixture
def release(db: None) -> Release:
    """Six samples of six records, each made from its own sample."""
    release = bare_release(*[("dialogue", [["A1"]])] * 6)
    for sample in release.samples.order_by("position"):
        version = _version_of_its_own(sample.version)
        # A frozen row cannot be changed: the release is made of other rows.
        type(sample).objects.create(
            release=_other(release), position=sample.position, version=version, key=sample.key, task=sample.task,
            exported=sample.exported,
        )  # fmt: skip
    return _other(release)


def _other(release: Release) -> Release:
    return Release.objects.get_or_create(
        name="shared", version=1, benchmark="mhb",
        defaults={
            "samples_count": 6, "rubrics_count": 0, "counts": {}, "generators": [], "sources": [],
            "simulated": False, "sha256": "2" * 64, "created_at": release.created_at,
        },
    )[0]  # fmt: skip


def clusters(release: Release, *shares: str) -> tuple[list[int], str]:
    """The size of each cluster, and their unit, if the records share this."""
    rows = release.samples.order_by("position").select_related("version__sample__record")
    for sample, shared in zip(rows, shares, strict=True):
        type(sample.version.sample.record).objects.filter(pk=sample.version.sample.record_id).update(shares=shared)
    samples = load_samples(release)
    sizes = samples.group_by("cluster").len()["len"].sort().to_list()
    return sizes, cluster_unit(samples)


def test_samples_of_records_that_share_something_are_one_cluster(release: Release) -> None:
    assert clusters(release, "", "", "", "", "", "") == ([1] * 6, SAMPLE)
    assert clusters(release, "image:a", "image:a", "image:b", "image:a", "", "") == ([1, 1, 1, 3], "image")
    by_both = clusters(release, "image:a", "image:a", "document:a", "document:a", "image:b", "")
    assert by_both == ([1, 1, 2, 2], "document, image")


def test_records_that_share_one_of_several_things_are_one_cluster_directly_or_through_others(release: Release) -> None:
    chain = clusters(release, "image:a image:b", "image:b image:c", "image:c", "image:d image:e", "image:f", "image:e")
    assert chain == ([1, 2, 3], "image")
    mixed = clusters(release, "video:v image:a", "video:v image:b", "image:b", "image:c", "image:d", "document:x")
    assert mixed == ([1, 1, 1, 3], "image, video")


def test_formats_say_what_their_records_share() -> None:
    file = File(stem="test", layout="jsonl", split="test")
    pair = {"sentence1": "He fell.", "gold_label": "neutral"}
    rows = [mednli.FORMAT.row(mednli.Pair.read({**pair, "sentence2": text}), file) for text in ("He ran.", "He sat.")]
    assert len({_shared(row) for row in rows}) == 1
    images = replace(rows[0], shares=[("video", "v1")], content={"images": ["1" * 64, "2" * 64, "1" * 64]})
    video, *of_images = _shared(images).split()
    assert (video.partition(":")[0], of_images) == ("video", [f"image:{'1' * 48}", f"image:{'2' * 48}"])
    assert _shared(rows[0]).startswith("document:")
    statement = {"statement": "It is so.", "label": True, "source": "medqa"}
    read = [medhal.FORMAT.row(medhal.FORMAT.model.read({**statement, "context": text}), file) for text in ("A.", "B.")]
    assert len({_shared(row) for row in read}) == 2
    patients = [{"patient": "A man.", "patient_uid": f"1-{n}", "PMID": "12"} for n in (1, 2)]
    articles = {_shared(pmc_patients.FORMAT.row(pmc_patients.FORMAT.model.read(row), file)) for row in patients}
    assert len(articles) == 1


@pytest.mark.parametrize(
    ("text", "visible"),
    [("", False), (" \n\t", False), ("\u200b\u200d\ufeff", False), ("\u2800\u3164", False), ("\u0301", False),
     (".", True), ("是", True), (" a\u200b", True), ("✓", True)],
)  # fmt: skip
def test_a_text_is_empty_without_a_character_that_can_be_seen(text: str, visible: bool) -> None:
    assert has_visible_text(text) is visible


def test_line_ends_and_invisible_answers_are_read_alike() -> None:
    row = {"sample": "s", "rubric": "R1", "model": "m", "met": True}
    texts = []
    for response in ("One.\nTwo.", "One.\r\nTwo.", "One.\rTwo."):
        read = _validated("line 1", {**row, "response": response})
        assert isinstance(read, VerdictRow)
        texts.append(read.response)
    assert set(texts) == {"One.\nTwo."}
    blank = _validated("line 1", {**row, "response": "\u200b \u3164"})
    assert isinstance(blank, VerdictRow)
    assert (blank.met, blank.outcome) == (None, "empty"), "nobody can have judged it"
    assert isinstance(_validated("line 1", {**row, "void": "odd"}), RefusedRow)
