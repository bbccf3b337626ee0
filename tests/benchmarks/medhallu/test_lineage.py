"""The lineage of a sample as shown on pages, and the analysis of the drafts of a batch."""

import asyncio

from django.template import Context
from django.template.loader import render_to_string

from mhb_site.benchmarks.medhallu import attempt
from mhb_site.benchmarks.medhallu.clusters import MEASURES
from mhb_site.benchmarks.medhallu.lineage import analysis, lineage
from review.charts.scatter import MAX_POINTS
from review.rules.blocks import Points, Table
from review.templatetags.review_blocks import show_block
from tests.benchmarks.medhallu.helpers import (
    TRUTH,
    WRONG,
    FakeModels,
    candidate,
    pair_draft,
    qa_draft,
    run_recipe,
    settings,
    wrong_answer,
)

INJECTION = "<script>alert(1)</script> & <b>bold</b>"


def tables(blocks):
    return {block.title: block for block in blocks if isinstance(block, Table)}


def improved_draft():
    """A draft whose first candidate failed and whose rewrite fools two voters."""
    return run_recipe(
        qa_draft(),
        FakeModels(
            generator_replies=[candidate(wrong_answer(1, 12))],
            rewrite_replies=[candidate(wrong_answer(2))],
            fooled={wrong_answer(2): 2},
        ),
    )


def test_every_candidate_vote_score_and_feedback_is_shown():
    shown = tables(lineage(improved_draft().data))
    candidates = shown["Candidates"].rows
    assert [row[0] for row in candidates] == ["1.1", "1.2"]
    assert [row[1] for row in candidates] == ["generated", "rewritten by the critic"]
    assert [row[-1] for row in candidates] == ["fooled too few voters", "qualified"]
    assert candidates[0][4] == "12 (outside the length limits)"
    assert [row[5] for row in candidates] == ["0 / 3", "2 / 3"]
    answers = shown["Candidate answers"].rows
    assert [row[:2] for row in answers] == [
        ("1.1", wrong_answer(1, 12)),
        ("1.1", wrong_answer(1, 12)),
        ("1.2", wrong_answer(2)),
    ]
    assert answers[0][2] == "replaced because of its length"
    # Nothing is marked as planted: neither replaced answers nor failed candidates.
    pages = [render_to_string(f"review/blocks/{table.kind}.html", {"block": table}) for table in shown.values()]
    assert not any("planted" in page for page in pages)
    votes = shown["Votes"].rows
    assert len(votes) == 6
    assert [row[4] for row in votes] == ["not fooled"] * 3 + ["fooled", "fooled", "not fooled"]
    assert {row[2] for row in votes} <= {"true answer", "hallucinated answer"}
    assert shown["Entailment"].rows == (
        ("1.1", "llm: entailment", "0.100", "0.100", "0.100"),
        ("1.2", "llm: entailment", "0.100", "0.100", "0.100"),
    )
    assert shown["Signs that gave candidates away"].rows == (("1.1", "Too bold.", "Too plain.", "Be subtler."),)
    assert ("Candidate", "1.2") in shown["Sample"].rows
    assert all(len(row) == len(table.columns) for table in shown.values() for row in table.rows)


def test_an_unreadable_vote_does_not_count():
    draft = qa_draft(settings=settings(tries=1, rewrites=0))
    models = FakeModels(fooled={WRONG: 1}, votes={"voter_2": "Both."})
    [draft_after] = asyncio.run(attempt.run_attempt(draft, models, number=1))
    data = draft_after.data
    shown = tables(lineage(data))
    assert [row[5:] for row in shown["Candidates"].rows] == [("1 / 2", "unreadable vote")]
    assert [row[3:] for row in shown["Votes"].rows][1] == ("Both.\n→ Both.", "broken")
    voters = tables(analysis([data, data]))["Voters"].rows
    assert [row[1:3] + row[-1:] for row in voters] == [
        ("2", "100.0 %", "0"),
        ("2", "–", "2"),
        ("2", "0.0 %", "0"),
    ]


def test_a_fallback_is_explained_and_all_similarities_are_shown():
    shown = tables(lineage(run_recipe(qa_draft(), FakeModels()).data))
    assert ("Reason for selection", "most similar to the true answer, because no candidate qualified") in shown[
        "Sample"
    ].rows
    assert len(shown["Similarity to the true answer"].rows) == 10


def test_a_broken_try_shows_the_reason():
    shown = tables(
        lineage(run_recipe(qa_draft(), FakeModels(generator_replies=["no", "no", candidate()], fooled={WRONG: 1})).data)
    )
    ((number, reason),) = shown["Unusable replies"].rows
    assert number == "1"
    assert reason


def test_an_unfinished_draft_shows_its_data_so_far():
    assert lineage({}) == []
    data = dict(improved_draft().data)
    del data["final"]
    assert "Sample" not in tables(lineage(data))


def test_a_published_pair_shows_its_origin():
    shown = tables(lineage(run_recipe(pair_draft(), FakeModels()).data))
    assert list(shown) == ["Sample"]
    assert ("Origin", "Published sample, used unchanged") in shown["Sample"].rows


def test_model_output_is_escaped_on_the_page():
    answer = f"{wrong_answer(1, 24)} {INJECTION}"
    draft = run_recipe(
        qa_draft(),
        FakeModels(
            generator_replies=[candidate(answer, justification=INJECTION)],
            fooled={answer: 1},
            votes={"voter_3": f"2\n{INJECTION}"},
        ),
    )
    blocks = lineage(draft.data)
    pages = "".join(render_to_string(f"review/blocks/{block.kind}.html", {"block": block}) for block in blocks)
    assert "<script" not in pages
    assert "<b>" not in pages
    assert pages.count("&lt;script&gt;") == 3


# ------------------------------------------------------------------------------------------ a batch


def clustered_draft():
    meaning = {wrong_answer(1): "a", wrong_answer(2): "a", wrong_answer(3): "b", TRUTH: "truth"}
    models = FakeModels(
        generator_replies=[candidate(wrong_answer(number)) for number in (1, 2, 3)],
        fooled={wrong_answer(1): 1, wrong_answer(2): 3},
        entailment_score=lambda premise, hypothesis: 0.9 if meaning[premise] == meaning[hypothesis] else 0.1,
    )
    return run_recipe(qa_draft(settings=settings("clusters", candidates=3)), models)


def test_clusters_are_shown_as_table_and_chart():
    blocks = lineage(clustered_draft().data)
    rows = tables(blocks)["Clusters"].rows
    assert [row[:4] for row in rows] == [
        ("1", "yes", "", ""),
        ("2", "no", "1.1, 2.1", "100.0 %"),
        ("3", "no", "3.1", "0.0 %"),
    ]
    (chart,) = (block for block in blocks if isinstance(block, Points))
    assert [(point.label, point.y, point.size, point.group) for point in chart.points] == [
        ("2", 100.0, 2.0, "fooling"),
        ("3", 0.0, 1.0, "not fooling"),
    ]
    assert chart.points[0].x == clustered_draft().data["clusters"]["clusters"][1]["cosine"]


def test_the_analysis_shows_shares_of_difficulty_category_tries_and_fallback():
    hard = run_recipe(qa_draft(), FakeModels(fooled={WRONG: 3})).data
    easy = run_recipe(qa_draft(), FakeModels(generator_replies=[candidate(category="II")], fooled={WRONG: 1})).data
    fallback = run_recipe(qa_draft(), FakeModels()).data
    published = run_recipe(pair_draft(), FakeModels()).data
    shown = tables(analysis(iter([hard, easy, improved_draft().data, fallback, published, {}])))
    assert shown["Difficulty"].rows == (("easy", "2", "40.0 %"), ("medium", "1", "20.0 %"), ("hard", "2", "40.0 %"))
    categories = {row[0]: row[1:] for row in shown["Categories"].rows}
    assert categories["MQ Misinterpretation of the question"] == ("1", "1", "1", "3", "60.0 %", "33.3 %")
    assert categories["II Incomplete information"] == ("1", "0", "1", "2", "40.0 %", "50.0 %")
    assert categories["MF Methodological and evidence fabrication"] == ("0", "0", "0", "0", "0.0 %", "–")
    assert shown["Qualifying try"].rows == (
        ("1", "3", "75.0 %"),
        ("none (fallback used)", "1", "25.0 %"),
    )
    voters = {row[0]: row for row in shown["Voters"].rows}
    assert voters["voter 1"][1:3] == ("14", "21.4 %")  # 1 + 1 + 2 + 10 votes, fooled thrice
    candidate_counts = {row[0]: row[1] for row in shown["Candidates"].rows}
    assert (
        candidate_counts["All"],
        candidate_counts["Rewritten by the critic"],
        candidate_counts["Outside the length limits"],
    ) == ("14", "6", "1")
    assert all(len(row) == len(table.columns) for table in shown.values() for row in table.rows)


def test_voters_are_shown_by_the_answer_shown_first():
    data = run_recipe(qa_draft(settings=settings(order="truth-first")), FakeModels(fooled={WRONG: 2})).data
    rows = tables(analysis([data]))["Voters"].rows
    assert [row[2:5] for row in rows] == [
        ("100.0 %", "100.0 %", "–"),
        ("100.0 %", "100.0 %", "–"),
        ("0.0 %", "0.0 %", "–"),
    ]


def test_the_analysis_contains_the_papers_table_of_clusters():
    data = clustered_draft().data
    blocks = analysis([data, data])
    shown = tables(blocks)
    (table,) = (table for title, table in shown.items() if title.startswith("Clusters by whether"))
    first, second = data["clusters"]["clusters"][1:]
    for row, cluster, candidates in zip(table.rows, (first, second), ("4", "2"), strict=True):
        assert row[1:3] == ("2", candidates)
        assert row[3:] == tuple(f"{cluster[name]:.3f}" for name in MEASURES)
    assert [row[1:] for row in shown["Uniform clusters and isolated true answers"].rows] == [
        ("2", "100.0 %"),
        ("2", "100.0 %"),
    ]
    (chart,) = (block for block in blocks if isinstance(block, Points))
    assert len(chart.points) == 4


def test_the_chart_counts_the_points_that_it_leaves_out():
    blocks = analysis([clustered_draft().data] * (MAX_POINTS // 2 + 3))
    (chart,) = (block for block in blocks if isinstance(block, Points))
    assert "6 more points are" in show_block(Context(), chart, 1)


def test_an_analysis_without_candidates_is_empty():
    assert analysis(iter([])) == []
    assert analysis([{}, {"tries": []}]) == []
