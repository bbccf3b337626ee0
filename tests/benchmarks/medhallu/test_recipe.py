"""The recipe: which candidates qualify, what follows a failure, the fallback, presets, clusters,
the sample."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from generation import errors
from generation.batches import queries
from generation.llm.fencing import read_data
from generation.models import Endpoint
from generation.recipes import registry
from generation.recipes.recipe import Dropped
from mhb_site.benchmarks.medhallu import attempt, clusters, presets, recipe
from tests.benchmarks.medhallu.helpers import (
    CONTEXTS,
    QUESTION,
    TRUTH,
    WRONG,
    FakeModels,
    all_candidates,
    candidate,
    make_sample,
    pair_draft,
    qa_draft,
    run_recipe,
    settings,
    wrong_answer,
)

pytestmark = pytest.mark.plain
PARAPHRASE = TRUTH.replace("more than", "less than")  # nearly the same words as the truth


def final_candidate(draft, models):
    return run_recipe(draft, models).data["final"]


# ----------------------------------------------------------------------------------------- the rule


@pytest.mark.parametrize(("fooled", "level"), [(1, "easy"), (2, "medium"), (3, "hard")])
def test_a_candidate_that_fools_a_voter_becomes_the_sample_at_once(fooled, level):
    models = FakeModels(fooled={WRONG: fooled})
    data = run_recipe(qa_draft(), models).data
    assert (data["final"]["difficulty"], data["final"]["tries"], data["final"]["fallback"]) == (level, 1, False)
    assert [len(models.requests_for(name)) for name in ("generate", "vote", "entail", "critique", "rewrite")] == [
        1,
        3,
        2,
        0,
        0,
    ]


def test_a_candidate_that_fools_no_voter_does_not_qualify():
    final = final_candidate(qa_draft(), FakeModels())
    assert final["fallback"]
    assert (final["difficulty"], final["tries"]) == ("easy", 5)


@pytest.mark.parametrize(
    ("scores", "qualifies"),
    [((0.74, 0.99), True), ((0.99, 0.74), True), ((0.75, 0.75), False), ((0.75, 0.99), False), ((0.0, 1.0), True)],
)
def test_a_candidate_qualifies_with_entailment_below_tau_in_one_direction(scores, qualifies):
    models = FakeModels(fooled={WRONG: 3}, scores={WRONG: scores})
    draft = replace(qa_draft("paper"), settings=settings("paper", tries=1, rewrites=0))
    assert all_candidates(run_recipe(draft, models))[0]["qualified"] is qualifies


def test_the_number_of_voters_to_fool_is_a_setting():
    draft = qa_draft(settings=settings(fooled=2, tries=1))
    assert final_candidate(draft, FakeModels(fooled={WRONG: 1}))["fallback"]
    assert final_candidate(draft, FakeModels(fooled={WRONG: 2}))["difficulty"] == "medium"


def test_a_candidate_without_readable_entailment_does_not_qualify():
    class Mute(FakeModels):
        def reply_to(self, role, request):
            return "?" if request.prompt.startswith("medhallu/entail") else super().reply_to(role, request)

    (first, *_rest) = all_candidates(run_recipe(qa_draft(settings=settings("paper", tries=1)), Mute(fooled={WRONG: 3})))
    assert (first["entailment"], first["entailed"], first["qualified"]) == (None, None, False)


def test_a_candidate_with_an_unreadable_vote_does_not_qualify():
    class Vague(FakeModels):
        def reply_to(self, role, request):
            is_unreadable = role == "voter_2" and any(wrong_answer(1) in message.text for message in request.messages)
            return "Both." if is_unreadable and "vote" in request.prompt else super().reply_to(role, request)

    models = Vague(
        generator_replies=[candidate(wrong_answer(1))],
        rewrite_replies=[candidate(wrong_answer(2))],
        fooled={wrong_answer(1): 3, wrong_answer(2): 1},
    )
    draft = run_recipe(qa_draft(), models)
    first, second = all_candidates(draft)
    assert (first["fooled"], first["qualified"]) == (2, False)
    assert read_data(models.requests_for("critique")[0].messages[1].text)["RESULT"]["voters"] == 2
    assert second["qualified"]
    assert draft.data["final"]["difficulty"] == "easy"


def test_a_draft_without_readable_votes_is_dropped_and_does_not_become_easy():
    with pytest.raises(Dropped, match=r"^10 of 10 candidates: votes could not be read \(voter_1, voter_3\)\.$"):
        run_recipe(qa_draft(), FakeModels(votes={"voter_1": "Both.", "voter_3": "?"}))


# -------------------------------------------------------------------------------------- improvement


def test_a_failed_candidate_is_critiqued_rewritten_and_judged_again():
    models = FakeModels(
        generator_replies=[candidate(wrong_answer(1))],
        rewrite_replies=[candidate(wrong_answer(2), category="II")],
        fooled={wrong_answer(2): 2},
    )
    draft = run_recipe(qa_draft(), models)
    first, second = all_candidates(draft)
    assert [first["by"], second["by"]] == ["generate", "rewrite"]
    assert [first["number"], second["number"]] == ["1.1", "1.2"]
    assert (first["qualified"], second["qualified"]) == (False, True)
    assert len(second["votes"]) == 3
    assert draft.data["tries"][0]["feedback"] == [
        {"of": "1.1", "wording": "Too bold.", "structure": "Too plain.", "advice": "Be subtler."}
    ]
    assert draft.data["final"]["number"] == "1.2"
    assert draft.data["final"]["category"] == "II"
    ((critique,), (rewrite,)) = models.requests_for("critique"), models.requests_for("rewrite")
    assert read_data(critique.messages[1].text)["RESULT"] == {"fooled": 0, "voters": 3, "says_the_same": False}
    assert read_data(rewrite.messages[1].text)["FEEDBACK"]["advice"] == "Be subtler."
    assert {role for role, request in models.requests if request in (critique, rewrite)} == {"critic"}


def test_the_critic_learns_if_a_candidate_says_the_same_as_the_truth():
    models = FakeModels(fooled={WRONG: 3}, scores={WRONG: (0.9, 0.9)})
    run_recipe(qa_draft(settings=settings("paper", tries=1, rewrites=1)), models)
    assert read_data(models.requests_for("critique")[0].messages[1].text)["RESULT"]["says_the_same"] is True


def test_the_next_try_gets_the_last_candidate_and_its_feedback():
    models = FakeModels(
        generator_replies=[candidate(wrong_answer(1)), candidate(wrong_answer(3))],
        rewrite_replies=[candidate(wrong_answer(2))],
        fooled={wrong_answer(3): 1},
    )
    draft = run_recipe(qa_draft(), models)
    assert [attempt["number"] for attempt in draft.data["tries"]] == [1, 2]
    assert [row["number"] for row in all_candidates(draft)] == ["1.1", "1.2", "2.1"]
    (second_request,) = models.requests_for("regenerate")
    blocks = read_data(second_request.messages[-1].text)
    assert blocks["LAST"]["answer"] == wrong_answer(2)
    assert blocks["FEEDBACK"]["advice"] == "Be subtler."
    assert json.loads(second_request.messages[-2].text)["answer"] == wrong_answer(2)
    assert second_request.repeat == 2
    assert all_candidates(draft)[2]["by"] == "regenerate"


def test_rewrites_and_tries_are_limited():
    models = FakeModels()
    draft = run_recipe(qa_draft(settings=settings(tries=2, rewrites=3)), models)
    assert [row["number"] for row in all_candidates(draft)] == [
        "1.1",
        "1.2",
        "1.3",
        "1.4",
        "2.1",
        "2.2",
        "2.3",
        "2.4",
    ]
    assert len(models.requests_for("rewrite")) == 6
    # One per rewrite and one for the second try; none after the last candidate, as nobody would
    # read it.
    assert len(models.requests_for("critique")) == 7


def test_the_paper_preset_judges_at_most_five_candidates():
    models = FakeModels(generator_replies=[candidate(wrong_answer(number)) for number in range(1, 9)])
    draft = run_recipe(qa_draft("paper"), models)
    assert [row["number"] for row in all_candidates(draft)] == ["1.1", "2.1", "3.1", "4.1", "5.1"]
    assert [row["by"] for row in all_candidates(draft)] == ["generate", *["regenerate"] * 4]
    call_counts = [len(models.requests_for(name)) for name in ("generate", "regenerate", "critique", "rewrite", "vote")]
    assert call_counts == [1, 4, 4, 0, 15]
    for number, request in enumerate(models.requests_for("regenerate"), 1):
        blocks = read_data(request.messages[-1].text)
        assert (blocks["LAST"]["answer"], blocks["FEEDBACK"]["advice"]) == (wrong_answer(number), "Be subtler.")


def test_there_are_at_most_five_tries():
    draft = run_recipe(qa_draft(), FakeModels())
    assert [attempt["number"] for attempt in draft.data["tries"]] == [1, 2, 3, 4, 5]


def test_an_unusable_generator_reply_ends_the_try_but_not_the_draft():
    models = FakeModels(generator_replies=["no", "no", candidate()], fooled={WRONG: 3})
    draft = run_recipe(qa_draft(), models)
    assert draft.data["tries"][0]["candidates"] == []
    assert draft.data["tries"][0]["broken"]
    assert draft.data["final"]["tries"] == 2


def test_a_draft_without_any_usable_reply_is_dropped_with_the_reason():
    models = FakeModels(generator_replies=[candidate(TRUTH)])
    with pytest.raises(Dropped, match="The answer is the true answer"):
        run_recipe(qa_draft(), models)


# ----------------------------------------------------------------------------------------- fallback


def test_without_an_embedder_the_fallback_is_nearest_by_tf_idf():
    models = FakeModels(
        generator_replies=[candidate(wrong_answer(1)), candidate(PARAPHRASE), candidate(wrong_answer(2))],
        rewrite_replies=[candidate(wrong_answer(3))],
    )
    final = final_candidate(qa_draft(), models)
    assert final["number"] == "2.1"
    assert final["similarity"] == "tf-idf"
    assert (final["difficulty"], final["fallback"]) == ("easy", True)
    assert final["near"]["2.1"] == max(final["near"].values())
    assert len(final["near"]) == 10


def test_with_an_embedder_the_fallback_is_nearest_by_embeddings():
    vectors = {TRUTH: [1.0, 0.0], PARAPHRASE: [0.0, 1.0], wrong_answer(1): [0.6, 0.8], wrong_answer(3): [-1.0, 0.0]}
    models = FakeModels(
        bound=FakeModels().bound | {"embedder"},
        vectors=vectors,
        generator_replies=[candidate(PARAPHRASE), candidate(wrong_answer(1))],
        rewrite_replies=[candidate(wrong_answer(3))],
    )
    sample = make_sample(qa_draft(settings=settings(tries=2)), models)
    assert sample.content["hallucinated"] == wrong_answer(1)
    assert sample.content["fallback"] is True
    assert sample.provenance["similarity"] == "embeddings"


def test_an_entailed_candidate_may_be_the_fallback_only_in_the_paper_preset():
    scores = {PARAPHRASE: (0.9, 0.9)}
    replies = [candidate(PARAPHRASE), candidate(wrong_answer(1))]
    ours = FakeModels(generator_replies=list(replies), rewrite_replies=[candidate(wrong_answer(3))], scores=scores)
    assert make_sample(qa_draft(), ours).content["hallucinated"] != PARAPHRASE
    papers = FakeModels(generator_replies=list(replies), rewrite_replies=[candidate(wrong_answer(3))], scores=scores)
    assert make_sample(qa_draft("paper"), papers).content["hallucinated"] == PARAPHRASE


def test_a_draft_is_dropped_if_all_candidates_say_the_same_as_the_truth():
    with pytest.raises(Dropped, match=r"^10 of 10 candidates: the answer says what the true answer says\.$"):
        run_recipe(qa_draft(), FakeModels(fooled={WRONG: 3}, scores={WRONG: (0.8, 0.8)}))


def test_the_drop_reason_distinguishes_unjudged_entailment_from_entailment():
    class Mute(FakeModels):
        def reply_to(self, role, request):
            return "?" if request.prompt.startswith("medhallu/entail") else super().reply_to(role, request)

    with pytest.raises(Dropped, match=r"^10 of 10 candidates: entailment could not be judged\.$"):
        run_recipe(qa_draft(), Mute(fooled={WRONG: 3}))
    models = FakeModels(generator_replies=[candidate(), "no", "no"], scores={WRONG: (0.9, 0.9)})
    with pytest.raises(Dropped, match=r"^1 of 1 candidates: the answer says what the true answer says\. \S") as dropped:
        run_recipe(qa_draft(settings=settings(tries=2, rewrites=0, feedback=False)), models)
    assert "could not be judged" not in str(dropped.value)


# ------------------------------------------------------------------------------------------ presets


def test_ours_is_the_first_preset_and_all_presets_have_the_same_settings():
    assert [preset.name for preset in presets.PRESETS] == [
        "ours",
        "paper",
        "released",
        "clusters",
        "clusters-12",
        "one-author",
    ]
    assert all(set(preset.values) == set(presets.PRESETS[0].values) for preset in presets.PRESETS)
    documented = {line.split("|")[1].strip() for line in (presets.__doc__ or "").splitlines() if line.startswith("|")}
    assert set(", ".join(documented).split(", ")) - {"setting", "---"} == set(presets.PRESETS[0].values)
    json.dumps([dict(preset.values) for preset in presets.PRESETS])


def test_a_draft_without_settings_uses_the_preset_ours():
    assert presets.settings(qa_draft(settings={})) == settings("ours")
    assert presets.name_of(qa_draft(settings={})) == "ours"
    assert presets.name_of(qa_draft(settings={"tries": 2})) == "own"


def test_the_released_preset_has_no_entailment_or_length_check_and_ends_with_the_generator():
    models = FakeModels(
        generator_replies=[candidate(wrong_answer(1, 60)), candidate(wrong_answer(9, 60))],
        rewrite_replies=[candidate(wrong_answer(2))],
        fooled={wrong_answer(9, 60): 1},
    )
    draft = run_recipe(qa_draft("released"), models)
    first, second = all_candidates(draft)
    assert (first["entailment"], first["entailed"], first["flags"]) == (None, False, [])
    assert second["by"] == "regenerate"
    assert second["prompt"] == "medhallu/released/regenerate@1"
    assert [len(models.requests_for(name)) for name in ("critique", "rewrite", "entail", "regenerate")] == [3, 3, 0, 1]
    assert draft.data["final"]["difficulty"] == "easy"
    assert make_sample(qa_draft("released"), FakeModels(fooled={WRONG: 1})).provenance["entailment"] == "none"


def test_each_try_of_the_released_preset_starts_with_a_distinct_request():
    models = FakeModels(generator_replies=[candidate(wrong_answer(1))], rewrite_replies=[candidate(wrong_answer(2))])
    run_recipe(qa_draft("released"), models)
    first_requests = models.requests_for("generate")
    assert len(first_requests) == 5
    assert len({request.repeat for request in first_requests}) == 5
    assert {request.temperature for request in first_requests} == {0.8}


# ----------------------------------------------------------------------------------------- clusters


def test_candidates_are_clustered_by_hand_made_entailment():
    same = {(0, 3), (1, 2), (1, 4), (5, 6)}

    async def means_the_same(first, other):
        return (first, other) in same

    assert asyncio.run(clusters.group_by_meaning(7, means_the_same)) == [[0, 3], [1, 2, 4], [5, 6]]


def test_a_candidate_is_compared_only_with_the_first_of_each_cluster():
    comparisons = []

    async def means_the_same(first, other):
        comparisons.append((first, other))
        return first == 1

    assert asyncio.run(clusters.group_by_meaning(4, means_the_same)) == [[0], [1, 2, 3]]
    assert comparisons == [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3)]


def run_clusters(models, candidates=5, **changes):
    return run_recipe(qa_draft(settings=settings("clusters", candidates=candidates, **changes)), models)


def models_with_three_meanings():
    """Models whose five candidates have three meanings: answers 1 to 3, answer 4, and a paraphrase
    of the truth."""
    answers = [wrong_answer(1), wrong_answer(2), wrong_answer(3), wrong_answer(4), PARAPHRASE]
    meaning = dict.fromkeys(answers[:3], "a") | {wrong_answer(4): "b", PARAPHRASE: "truth", TRUTH: "truth"}
    return FakeModels(
        generator_replies=[candidate(answer) for answer in answers],
        fooled={wrong_answer(1): 1, wrong_answer(2): 3, wrong_answer(3): 0, wrong_answer(4): 0, PARAPHRASE: 3},
        entailment_score=lambda premise, hypothesis: 0.8 if meaning[premise] == meaning[hypothesis] else 0.7,
    )


def test_all_candidates_are_stored_voted_on_and_clustered_with_the_truth():
    draft = run_clusters(models_with_three_meanings())
    clusters_data = draft.data["clusters"]
    assert [(each["members"], each["truth"]) for each in clusters_data["clusters"]] == [
        (["5.1"], True),
        (["1.1", "2.1", "3.1"], False),
        (["4.1"], False),
    ]
    assert [each["share"] for each in clusters_data["clusters"]] == [1.0, pytest.approx(2 / 3, abs=1e-6), 0.0]
    assert all(set(clusters.MEASURES) <= set(each) for each in clusters_data["clusters"])
    assert clusters_data["clusters"][0]["rougeL"] > 0.9 > clusters_data["clusters"][1]["rougeL"]
    stored = all_candidates(draft)
    assert [each["number"] for each in stored] == ["1.1", "2.1", "3.1", "4.1", "5.1"]
    assert all(len(each["votes"]) == 3 and each["entailment"] for each in stored)
    assert "made" not in draft.data


def test_a_cluster_has_the_share_that_fools_as_many_voters_as_the_launch_demands():
    draft = run_clusters(models_with_three_meanings(), fooled="majority")
    shares = [each["share"] for each in draft.data["clusters"]["clusters"]]
    assert shares == [1.0, pytest.approx(1 / 3, abs=1e-6), 0.0], "answer 1 fools one voter of three"


def test_the_best_qualifying_candidate_becomes_the_sample():
    draft = run_clusters(models_with_three_meanings())
    # PARAPHRASE fools all voters but says the same as the truth; of the others, answer 2 fools
    # most.
    assert draft.data["final"]["number"] == "2.1"
    assert draft.data["final"]["difficulty"] == "hard"
    assert recipe.sample(draft).provenance["similarity"] == "tf-idf"
    assert recipe.sample(draft).provenance["preset"] == "own"


def test_the_truth_forms_a_cluster_even_without_candidates():
    models = FakeModels(generator_replies=[candidate(wrong_answer(1)), candidate(wrong_answer(2))], fooled={})
    draft = run_clusters(models, 2)
    assert draft.data["clusters"]["clusters"][0] == {"members": [], "truth": True}
    assert draft.data["final"]["fallback"] is True


def test_a_candidate_with_an_unusable_reply_is_left_out():
    models = FakeModels(generator_replies=["no", "no", candidate()], fooled={WRONG: 1})
    draft = run_clusters(models, 2)
    assert len(all_candidates(draft)) == 1
    assert draft.data["tries"][0]["broken"]
    assert "broken" not in draft.data


def test_a_draft_without_usable_replies_is_dropped_with_their_reason():
    with pytest.raises(Dropped, match=r"^[^0-9]*The answer is the true answer: it has to be wrong"):
        run_clusters(FakeModels(generator_replies=[candidate(TRUTH)]), 3)


def test_each_candidate_of_a_question_has_its_own_request():
    models = models_with_three_meanings()
    run_clusters(models)
    assert [request.repeat for request in models.requests_for("generate")] == [1, 2, 3, 4, 5]
    assert len({request.temperature for request in models.requests_for("generate")}) == 5


# --------------------------------------------------------------------------------------- the sample


def test_the_sample_contains_the_final_candidate_and_its_provenance():
    sample = make_sample(qa_draft(), FakeModels(fooled={WRONG: 2}))
    assert sample.task == "detection"
    assert sample.content == {
        "question": QUESTION,
        "knowledge": CONTEXTS,
        "truth": TRUTH,
        "hallucinated": WRONG,
        "justification": "The findings are swapped.",
        "category": "MQ",
        "difficulty": "medium",
        "tries": 1,
        "fallback": False,
        "flags": [],
        "pmid": "90000001",
        "mesh": ["Blood Glucose", "Diabetes Mellitus, Type 2", "Walking", "Humans"],
        "branches": ["C"],
    }
    ((rubric),) = sample.rubrics
    assert (rubric.key, rubric.traps) == ("R1", ("MQ",))
    assert sample.prompt == "medhallu/generate@3"
    assert sample.provenance["entailment"] == "llm: entailment"
    assert sample.provenance["preset"] == "ours"
    assert sample.provenance["origin"] == "made here"
    assert "similarity" not in sample.provenance  # no similarity was computed


def test_a_wrong_length_is_flagged_in_the_sample():
    short = wrong_answer(1, 12)
    assert make_sample(qa_draft(), FakeModels(generator_replies=[candidate(short)], fooled={short: 1})).content[
        "flags"
    ] == ["length"]


def test_a_published_pair_is_used_unchanged_without_asking_a_model():
    models = FakeModels(bound=frozenset())
    sample = make_sample(pair_draft(settings=settings(review_share=0.0)), models)
    assert models.requests == []
    content = sample.content
    assert (content["hallucinated"], content["truth"], content["knowledge"]) == (WRONG, TRUTH, CONTEXTS)
    assert (content["difficulty"], content["category"]) == ("hard", "II")
    assert (content["pmid"], content["mesh"][0], content["branches"]) == ("90000001", "Blood Glucose", ["C"])
    assert sample.provenance == {"review": "not sampled", "reviewers": "none", "origin": "published"}


def test_a_published_pair_without_its_article_has_neither_pmid_nor_branch():
    draft = pair_draft()
    content = make_sample(replace(draft, record=replace(draft.record, joined={})), FakeModels()).content
    assert (content["pmid"], content["mesh"], content["branches"]) == ("", [], [])


def test_the_review_share_is_drawn_by_record_and_stays_the_same_for_later_versions():
    def is_sampled(number, share, **changes):
        draft = pair_draft(settings=settings(review_share=share), **changes)
        draft = replace(draft, record=replace(draft.record, external_id=f"p-{number}"))
        return make_sample(draft, FakeModels()).provenance["review"] == "sampled"

    assert not any(is_sampled(number, 0.0) for number in range(50))
    assert all(is_sampled(number, 1.0) for number in range(50))
    assert 0.15 < sum(is_sampled(number, 0.2) for number in range(500)) / 500 < 0.25
    assert all(is_sampled(number, 0.2) == is_sampled(number, 0.2, version=2) for number in range(50))


@pytest.mark.parametrize("reviewers", ["one", "two"])
def test_only_sampled_versions_record_their_reviewers(reviewers):
    def provenance(share):
        return make_sample(
            pair_draft(settings=settings(review_share=share, reviewers=reviewers)), FakeModels()
        ).provenance

    assert (provenance(1.0)["review"], provenance(1.0)["reviewers"]) == ("sampled", reviewers)
    assert (provenance(0.0)["review"], provenance(0.0)["reviewers"]) == ("not sampled", "none")
    assert make_sample(qa_draft("released"), FakeModels(fooled={WRONG: 1})).provenance["reviewers"] == "none"


# ------------------------------------------------------------------------------- roles and estimate


def test_roles_are_needed_for_questions_but_not_for_published_pairs():
    assert recipe.RECIPE.kinds == {"qa", "qa-pair"}
    assert all(role.kinds == {"qa"} for role in recipe.RECIPE.roles)
    assert {role.name for role in recipe.RECIPE.roles if role.optional} == {"entailment", "embedder"}
    assert {role.name: role.default for role in recipe.RECIPE.roles if role.default} == {
        "entailment": "voter_1",  # no role that writes candidates
    }


@pytest.mark.parametrize("judging", ["voter_1", "voter_2", "voter_3", "entailment"])
@pytest.mark.parametrize("writing", ["generator", "critic"])
def test_who_writes_candidates_does_not_judge_them(writing: str, judging: str) -> None:
    shared = {writing: [Endpoint(model="m")], judging: [Endpoint(model="m")]}
    assert queries.shared_models("medhallu", shared) == [(judging, writing, "m")]


@pytest.mark.parametrize(("fooled", "least"), [(1, 1), ("majority", 2), (3, 3)])
def test_the_launch_says_how_many_voters_have_to_be_fooled(fooled: Any, least: int) -> None:
    settings = {**registry.resolve_settings("medhallu", "", {"fooled": fooled}), "entailment": False}
    ballots = [[{"fooled": n < count, "broken": False} for n in range(3)] for count in range(4)]
    qualified = [attempt.assess_candidate(settings, {"votes": votes}, None)["qualified"] for votes in ballots]
    assert qualified == [count >= least for count in range(4)]
    with pytest.raises(errors.WrongSetting):
        registry.resolve_settings("medhallu", "", {"fooled": "most"})


def test_the_estimate_assumes_two_tries():
    calls = [ask for step in recipe.RECIPE.steps if step.applies(qa_draft()) for ask in step.asks(qa_draft())]
    assert calls.count(("voter_1", "medhallu/vote@1")) == 4
    assert calls.count(("entailment", "medhallu/entail@2")) == 8
    assert calls.count(("generator", "medhallu/generate@3")) == 1
    assert calls.count(("generator", "medhallu/regenerate@1")) == 1
    assert calls.count(("critic", "medhallu/rewrite@2")) == 2
    assert calls.count(("critic", "medhallu/critique@1")) == 3  # one between the two tries


def test_the_estimate_of_clusters_counts_its_candidates():
    draft = qa_draft("clusters")
    calls = [ask for step in recipe.RECIPE.steps if step.applies(draft) for ask in step.asks(draft)]
    assert calls.count(("generator", "medhallu/generate@3")) == 50
    assert calls.count(("voter_3", "medhallu/vote@1")) == 50


def test_the_estimate_of_published_pairs_has_no_calls():
    assert not [ask for step in recipe.RECIPE.steps if step.applies(pair_draft()) for ask in step.asks(pair_draft())]


def test_samples_are_compared_by_question_and_hallucinated_answer():
    assert recipe.text_to_compare(make_sample(pair_draft(), FakeModels())) == f"{QUESTION}\n{WRONG}"
