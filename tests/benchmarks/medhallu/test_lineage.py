"""What is shown of how a sample was made, and what the drafts of a batch show together."""

import asyncio

from django.template.loader import render_to_string

from mhb_site.benchmarks.medhallu import attempt
from mhb_site.benchmarks.medhallu.lineage import analysis, lineage
from review.charts.scatter import MAX_POINTS
from review.rules.blocks import Points, Table
from review.templatetags.review_blocks import show_block
from tests.benchmarks.medhallu.helpers import (
    TRUTH,
    WRONG,
    Fake,
    candidate,
    pair_draft,
    qa_draft,
    run,
    settings,
    worded,
)

NASTY = "<script>alert(1)</script> & <b>bold</b>"


def tables(blocks):
    return {block.title: block for block in blocks if isinstance(block, Table)}


def improved():
    """A draft whose first candidate failed and whose rewrite fools two."""
    return run(
        qa_draft(),
        Fake(new=[candidate(worded(1, 12))], rewritten=[candidate(worded(2))], fooled={worded(2): 2}),
    )


def test_every_candidate_vote_score_and_feedback_is_shown():
    found = tables(lineage(improved().data))
    candidates = found["Candidates"].rows
    assert [row[0] for row in candidates] == ["1.1", "1.2"]
    assert [row[1] for row in candidates] == ["generated", "rewritten by the critic"]
    assert [row[-1] for row in candidates] == ["fooled too few voters", "qualified"]
    assert candidates[0][4] == "12 (outside the length limits)"
    assert [row[5] for row in candidates] == ["0 / 3", "2 / 3"]
    answers = found["Candidate answers"].rows
    assert [row[:2] for row in answers] == [("1.1", worded(1, 12)), ("1.1", worded(1, 12)), ("1.2", worded(2))]
    assert answers[0][2] == "replaced because of its length"
    # Nothing but the sample is planted: not what was replaced, nor who failed.
    pages = [render_to_string(f"review/blocks/{each.kind}.html", {"block": each}) for each in found.values()]
    assert not any("planted" in page for page in pages)
    votes = found["Votes"].rows
    assert len(votes) == 6
    assert [row[4] for row in votes] == ["not fooled"] * 3 + ["fooled", "fooled", "not fooled"]
    assert {row[2] for row in votes} <= {"true answer", "hallucinated answer"}
    assert found["Entailment"].rows == (
        ("1.1", "llm: entailment", "0.100", "0.100", "0.100"),
        ("1.2", "llm: entailment", "0.100", "0.100", "0.100"),
    )
    assert found["Signs that gave candidates away"].rows == (("1.1", "Too bold.", "Too plain.", "Be subtler."),)
    assert ("Candidate", "1.2") in found["Sample"].rows
    assert all(len(row) == len(table.columns) for table in found.values() for row in table.rows)


def test_a_vote_that_could_not_be_read_is_no_vote():
    draft = qa_draft(settings=settings(tries=1, rewrites=0))
    models = Fake(fooled={WRONG: 1}, votes={"voter_2": "Both."})
    data = {"tries": [asyncio.run(attempt.run_attempt(draft, models, 1))]}
    found = tables(lineage(data))
    assert [row[5:] for row in found["Candidates"].rows] == [("1 / 2", "unreadable vote")]
    assert [row[3:] for row in found["Votes"].rows][1] == ("Both.\n→ Both.", "broken")
    voters = tables(analysis([data, data]))["Voters"].rows
    assert [row[1:3] + row[-1:] for row in voters] == [
        ("2", "100.0 %", "0"),
        ("2", "–", "2"),
        ("2", "0.0 %", "0"),
    ]


def test_a_fallback_says_so_and_shows_how_near_all_were():
    found = tables(lineage(run(qa_draft(), Fake()).data))
    assert ("Reason for selection", "most similar to the true answer, because no candidate qualified") in found[
        "Sample"
    ].rows
    assert len(found["Similarity to the true answer"].rows) == 10


def test_a_broken_try_shows_why():
    found = tables(lineage(run(qa_draft(), Fake(new=["no", "no", candidate()], fooled={WRONG: 1})).data))
    ((number, why),) = found["Unusable replies"].rows
    assert number == "1"
    assert why


def test_a_draft_that_has_only_begun_shows_what_there_is():
    assert lineage({}) == []
    data = dict(improved().data)
    del data["final"]
    assert "Sample" not in tables(lineage(data))


def test_a_published_pair_says_where_it_is_from():
    found = tables(lineage(run(pair_draft(), Fake()).data))
    assert list(found) == ["Sample"]
    assert ("Origin", "Published sample, used unchanged") in found["Sample"].rows


def test_what_models_wrote_is_text_on_the_page():
    answer = f"{worded(1, 24)} {NASTY}"
    draft = run(
        qa_draft(),
        Fake(new=[candidate(answer, justification=NASTY)], fooled={answer: 1}, votes={"voter_3": f"2\n{NASTY}"}),
    )
    blocks = lineage(draft.data)
    pages = "".join(render_to_string(f"review/blocks/{block.kind}.html", {"block": block}) for block in blocks)
    assert "<script" not in pages
    assert "<b>" not in pages
    assert pages.count("&lt;script&gt;") == 3


# -------------------------------------------------------------------------------------------------------------- a batch


def clustered():
    texts = {worded(1): "a", worded(2): "a", worded(3): "b", TRUTH: "truth"}
    models = Fake(
        new=[candidate(worded(number)) for number in (1, 2, 3)],
        fooled={worded(1): 1, worded(2): 3},
        scored=lambda premise, hypothesis: 0.9 if texts[premise] == texts[hypothesis] else 0.1,
    )
    return run(qa_draft(settings=settings("clusters", candidates=3)), models)


def test_clusters_are_a_table_and_a_picture():
    blocks = lineage(clustered().data)
    rows = tables(blocks)["Clusters"].rows
    assert [row[:4] for row in rows] == [
        ("1", "yes", "", ""),
        ("2", "no", "1.1, 2.1", "100.0 %"),
        ("3", "no", "3.1", "0.0 %"),
    ]
    (picture,) = (block for block in blocks if isinstance(block, Points))
    assert [(point.label, point.y, point.size, point.group) for point in picture.points] == [
        ("2", 100.0, 2.0, "fooling"),
        ("3", 0.0, 1.0, "not fooling"),
    ]
    assert picture.points[0].x == clustered().data["clusters"]["clusters"][1]["cosine"]


def test_shares_of_difficulty_category_tries_and_fallback():
    hard = run(qa_draft(), Fake(fooled={WRONG: 3})).data
    easy = run(qa_draft(), Fake(new=[candidate(category="II")], fooled={WRONG: 1})).data
    fallback = run(qa_draft(), Fake()).data
    published = run(pair_draft(), Fake()).data
    found = tables(analysis(iter([hard, easy, improved().data, fallback, published, {}])))
    assert found["Difficulty"].rows == (("easy", "2", "40.0 %"), ("medium", "1", "20.0 %"), ("hard", "2", "40.0 %"))
    categories = {row[0]: row[1:] for row in found["Categories"].rows}
    assert categories["MQ Misinterpretation of the question"] == ("1", "1", "1", "3", "60.0 %", "33.3 %")
    assert categories["II Incomplete information"] == ("1", "0", "1", "2", "40.0 %", "50.0 %")
    assert categories["MF Methodological and evidence fabrication"] == ("0", "0", "0", "0", "0.0 %", "–")
    assert found["Qualifying try"].rows == (
        ("1", "3", "75.0 %"),
        ("none (fallback used)", "1", "25.0 %"),
    )
    voters = {row[0]: row for row in found["Voters"].rows}
    assert voters["voter 1"][1:3] == ("14", "21.4 %")  # 1 + 1 + 2 + 10 votes, fooled thrice
    of = {row[0]: row[1] for row in found["Candidates"].rows}
    assert (of["All"], of["Rewritten by the critic"], of["Outside the length limits"]) == ("14", "6", "1")
    assert all(len(row) == len(table.columns) for table in found.values() for row in table.rows)


def test_voters_are_shown_by_what_stood_first():
    data = run(qa_draft(settings=settings(order="truth-first")), Fake(fooled={WRONG: 2})).data
    rows = tables(analysis([data]))["Voters"].rows
    assert [row[2:5] for row in rows] == [
        ("100.0 %", "100.0 %", "–"),
        ("100.0 %", "100.0 %", "–"),
        ("0.0 %", "0.0 %", "–"),
    ]


def test_the_papers_table_of_clusters():
    data = clustered().data
    blocks = analysis([data, data])
    found = tables(blocks)
    (table,) = (table for title, table in found.items() if title.startswith("Clusters by whether"))
    first, second = data["clusters"]["clusters"][1:]
    for row, cluster, candidates in zip(table.rows, (first, second), ("4", "2"), strict=True):
        assert row[1:3] == ("2", candidates)
        assert row[3:] == tuple(
            f"{cluster[name]:.3f}" for name in ("cosine", "euclidean", "rouge1", "rouge2", "rougeL")
        )
    assert [row[1:] for row in found["Uniform clusters and isolated true answers"].rows] == [
        ("2", "100.0 %"),
        ("2", "100.0 %"),
    ]
    (picture,) = (block for block in blocks if isinstance(block, Points))
    assert len(picture.points) == 4


def test_points_that_are_not_drawn_are_counted():
    blocks = analysis([clustered().data] * (MAX_POINTS // 2 + 3))
    (picture,) = (block for block in blocks if isinstance(block, Points))
    assert "6 more points are" in show_block(picture, 1)


def test_nothing_made_shows_nothing():
    assert analysis(iter([])) == []
    assert analysis([{}, {"tries": []}]) == []
