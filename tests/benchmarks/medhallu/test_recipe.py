"""The recipe: which candidate qualifies, what follows a failure, the fallback, the presets, clusters, and the sample made."""

import asyncio
import json
from dataclasses import replace

import pytest

from generation.llm.fencing import read_data
from generation.recipes.recipe import Dropped
from mhb_site.benchmarks.medhallu import clusters, presets, recipe
from tests.benchmarks.medhallu.helpers import (
    CONTEXTS,
    QUESTION,
    TRUTH,
    WRONG,
    Fake,
    all_candidates,
    candidate,
    made,
    pair_draft,
    qa_draft,
    run,
    settings,
    worded,
)

pytestmark = pytest.mark.plain
TENTH = TRUTH.replace("more than", "less than")  # of nearly the same words as the truth


def final(draft, models):
    return run(draft, models).data["final"]


# ------------------------------------------------------------------------------------------------------------- the rule


@pytest.mark.parametrize(("fooled", "level"), [(1, "easy"), (2, "medium"), (3, "hard")])
def test_who_fools_one_or_more_becomes_the_sample_at_once(fooled, level):
    models = Fake(fooled={WRONG: fooled})
    found = run(qa_draft(), models).data
    assert (found["final"]["difficulty"], found["final"]["tries"], found["final"]["fallback"]) == (level, 1, False)
    assert [len(models.asked(name)) for name in ("generate", "vote", "entail", "critique", "rewrite")] == [
        1,
        3,
        2,
        0,
        0,
    ]


def test_who_fools_nobody_does_not_qualify():
    found = final(qa_draft(), Fake())
    assert found["fallback"]
    assert (found["difficulty"], found["tries"]) == ("easy", 5)


@pytest.mark.parametrize(
    ("scores", "qualifies"),
    [((0.7499, 0.99), True), ((0.99, 0.7499), True), ((0.75, 0.75), False), ((0.75, 0.99), False), ((0.0, 1.0), True)],
)
def test_below_tau_in_one_direction_is_enough_and_tau_itself_is_too_much(scores, qualifies):
    models = Fake(fooled={WRONG: 3}, scores={WRONG: scores})
    draft = replace(qa_draft("paper"), settings=settings("paper", tries=1, rewrites=0))
    assert all_candidates(run(draft, models))[0]["qualified"] is qualifies


def test_more_voters_can_be_asked_for():
    draft = qa_draft(settings=settings(fooled=2, tries=1))
    assert final(draft, Fake(fooled={WRONG: 1}))["fallback"]
    assert final(draft, Fake(fooled={WRONG: 2}))["difficulty"] == "medium"


def test_entailment_that_cannot_be_had_qualifies_nobody():
    class Mute(Fake):
        def said(self, role, request):
            return "?" if request.prompt.startswith("medhallu/entail") else super().said(role, request)

    (first, *_rest) = all_candidates(run(qa_draft(settings=settings("paper", tries=1)), Mute(fooled={WRONG: 3})))
    assert (first["entailment"], first["entailed"], first["qualified"]) == (None, None, False)


def test_a_candidate_with_a_vote_that_cannot_be_read_has_no_difficulty_and_is_not_taken():
    class Vague(Fake):
        def said(self, role, request):
            unread = role == "voter_2" and any(worded(1) in message.text for message in request.messages)
            return "Both." if unread and "vote" in request.prompt else super().said(role, request)

    models = Vague(new=[candidate(worded(1))], rewritten=[candidate(worded(2))], fooled={worded(1): 3, worded(2): 1})
    draft = run(qa_draft(), models)
    first, second = all_candidates(draft)
    assert (first["fooled"], first["qualified"]) == (2, False)
    assert read_data(models.asked("critique")[0].messages[1].text)["RESULT"]["voters"] == 2
    assert second["qualified"]
    assert draft.data["final"]["difficulty"] == "easy"


def test_where_no_candidates_votes_can_be_read_nothing_is_made_easy():
    with pytest.raises(Dropped, match=r"^10 of 10 candidates: votes could not be read \(voter_1, voter_3\)\.$"):
        run(qa_draft(), Fake(votes={"voter_1": "Both.", "voter_3": "?"}))


# ---------------------------------------------------------------------------------------------------------- improvement


def test_a_failed_candidate_is_criticised_rewritten_and_judged_again():
    models = Fake(new=[candidate(worded(1))], rewritten=[candidate(worded(2), category="II")], fooled={worded(2): 2})
    draft = run(qa_draft(), models)
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
    ((critique,), (rewrite,)) = models.asked("critique"), models.asked("rewrite")
    assert read_data(critique.messages[1].text)["RESULT"] == {"fooled": 0, "voters": 3, "says_the_same": False}
    assert read_data(rewrite.messages[1].text)["FEEDBACK"]["advice"] == "Be subtler."
    assert {role for role, request in models.requests if request in (critique, rewrite)} == {"critic"}


def test_the_critic_is_told_that_a_candidate_says_the_same():
    models = Fake(fooled={WRONG: 3}, scores={WRONG: (0.9, 0.9)})
    run(qa_draft(settings=settings("paper", tries=1, rewrites=1)), models)
    assert read_data(models.asked("critique")[0].messages[1].text)["RESULT"]["says_the_same"] is True


def test_the_next_try_learns_from_the_last():
    models = Fake(
        new=[candidate(worded(1)), candidate(worded(3))], rewritten=[candidate(worded(2))], fooled={worded(3): 1}
    )
    draft = run(qa_draft(), models)
    assert [tried["number"] for tried in draft.data["tries"]] == [1, 2]
    assert [each["number"] for each in all_candidates(draft)] == ["1.1", "1.2", "2.1"]
    (again,) = models.asked("regenerate")
    blocks = read_data(again.messages[-1].text)
    assert blocks["LAST"]["answer"] == worded(2)
    assert blocks["FEEDBACK"]["advice"] == "Be subtler."
    assert json.loads(again.messages[-2].text)["answer"] == worded(2)
    assert again.repeat == 2
    assert all_candidates(draft)[2]["by"] == "regenerate"


def test_rewrites_and_tries_are_bounded():
    models = Fake()
    draft = run(qa_draft(settings=settings(tries=2, rewrites=3)), models)
    assert [each["number"] for each in all_candidates(draft)] == [
        "1.1",
        "1.2",
        "1.3",
        "1.4",
        "2.1",
        "2.2",
        "2.3",
        "2.4",
    ]
    assert len(models.asked("rewrite")) == 6
    # One a rewrite, and what the second try learns from; nobody would read one after the last.
    assert len(models.asked("critique")) == 7


def test_as_in_the_paper_five_candidates_are_judged_at_most():
    models = Fake(new=[candidate(worded(number)) for number in range(1, 9)])
    draft = run(qa_draft("paper"), models)
    assert [each["number"] for each in all_candidates(draft)] == ["1.1", "2.1", "3.1", "4.1", "5.1"]
    assert [each["by"] for each in all_candidates(draft)] == ["generate", *["regenerate"] * 4]
    asked = [len(models.asked(name)) for name in ("generate", "regenerate", "critique", "rewrite", "vote")]
    assert asked == [1, 4, 4, 0, 15]
    for number, request in enumerate(models.asked("regenerate"), 1):
        blocks = read_data(request.messages[-1].text)
        assert (blocks["LAST"]["answer"], blocks["FEEDBACK"]["advice"]) == (worded(number), "Be subtler.")


def test_five_tries_at_most():
    draft = run(qa_draft(), Fake())
    assert [tried["number"] for tried in draft.data["tries"]] == [1, 2, 3, 4, 5]


def test_a_generator_of_no_use_ends_the_try_and_not_the_draft():
    models = Fake(new=["no", "no", candidate()], fooled={WRONG: 3})
    draft = run(qa_draft(), models)
    assert draft.data["tries"][0]["candidates"] == []
    assert draft.data["tries"][0]["broken"]
    assert draft.data["final"]["tries"] == 2


def test_a_generator_that_is_of_no_use_at_all_drops_the_draft_with_the_reason():
    models = Fake(new=[candidate(TRUTH)])
    with pytest.raises(Dropped, match="The answer is the true answer"):
        run(qa_draft(), models)


# ------------------------------------------------------------------------------------------------------------- fallback


def test_the_fallback_is_the_nearest_by_tf_idf_where_there_is_no_embedder():
    models = Fake(new=[candidate(worded(1)), candidate(TENTH), candidate(worded(2))], rewritten=[candidate(worded(3))])
    found = final(qa_draft(), models)
    assert found["number"] == "2.1"
    assert found["similarity"] == "tf-idf"
    assert (found["difficulty"], found["fallback"]) == ("easy", True)
    assert found["near"]["2.1"] == max(found["near"].values())
    assert len(found["near"]) == 10


def test_the_fallback_is_the_nearest_by_embeddings_where_there_is_one():
    vectors = {TRUTH: [1.0, 0.0], TENTH: [0.0, 1.0], worded(1): [0.6, 0.8], worded(3): [-1.0, 0.0]}
    models = Fake(
        bound=Fake().bound | {"embedder"},
        vectors=vectors,
        new=[candidate(TENTH), candidate(worded(1))],
        rewritten=[candidate(worded(3))],
    )
    sample = made(qa_draft(settings=settings(tries=2)), models)
    assert sample.content["hallucinated"] == worded(1)
    assert sample.content["fallback"] is True
    assert sample.made["similarity"] == "embeddings"


def test_what_says_the_same_is_never_our_fallback_and_may_be_the_papers():
    scores = {TENTH: (0.9, 0.9)}
    new = [candidate(TENTH), candidate(worded(1))]
    ours = Fake(new=list(new), rewritten=[candidate(worded(3))], scores=scores)
    assert made(qa_draft(), ours).content["hallucinated"] != TENTH
    papers = Fake(new=list(new), rewritten=[candidate(worded(3))], scores=scores)
    assert made(qa_draft("paper"), papers).content["hallucinated"] == TENTH


def test_where_all_say_the_same_there_is_no_sample():
    with pytest.raises(Dropped, match=r"^10 of 10 candidates: the answer says what the true answer says\.$"):
        run(qa_draft(), Fake(fooled={WRONG: 3}, scores={WRONG: (0.8, 0.8)}))


def test_entailment_that_nobody_judged_is_not_said_to_be_found():
    class Mute(Fake):
        def said(self, role, request):
            return "?" if request.prompt.startswith("medhallu/entail") else super().said(role, request)

    with pytest.raises(Dropped, match=r"^10 of 10 candidates: entailment could not be judged\.$"):
        run(qa_draft(), Mute(fooled={WRONG: 3}))
    models = Fake(new=[candidate(), "no", "no"], scores={WRONG: (0.9, 0.9)})
    with pytest.raises(Dropped, match=r"^1 of 1 candidates: the answer says what the true answer says\. \S") as dropped:
        run(qa_draft(settings=settings(tries=2, rewrites=0, feedback=False)), models)
    assert "could not be judged" not in str(dropped.value)


# -------------------------------------------------------------------------------------------------------------- presets


def test_ours_is_the_usual_one_and_all_have_the_same_settings():
    assert [preset.name for preset in presets.PRESETS] == ["ours", "paper", "released", "clusters", "clusters-12"]
    assert all(set(preset.values) == set(presets.PRESETS[0].values) for preset in presets.PRESETS)
    documented = {line.split("|")[1].strip() for line in (presets.__doc__ or "").splitlines() if line.startswith("|")}
    assert set(", ".join(documented).split(", ")) - {"setting", "---"} == set(presets.PRESETS[0].values)
    json.dumps([dict(preset.values) for preset in presets.PRESETS])


def test_a_draft_without_settings_has_ours():
    assert presets.settings(qa_draft(settings={})) == settings("ours")
    assert presets.name_of(qa_draft(settings={})) == "ours"
    assert presets.name_of(qa_draft(settings={"tries": 2})) == "own"


def test_the_released_code_has_no_entailment_no_length_and_the_generators_last_word():
    models = Fake(
        new=[candidate(worded(1, 60)), candidate(worded(9, 60))],
        rewritten=[candidate(worded(2))],
        fooled={worded(9, 60): 1},
    )
    draft = run(qa_draft("released"), models)
    first, second = all_candidates(draft)
    assert (first["entailment"], first["entailed"], first["flags"]) == (None, False, [])
    assert second["by"] == "regenerate"
    assert second["prompt"] == "medhallu/released/regenerate@1"
    assert [len(models.asked(name)) for name in ("critique", "rewrite", "entail", "regenerate")] == [3, 3, 0, 1]
    assert draft.data["final"]["difficulty"] == "easy"
    assert made(qa_draft("released"), Fake(fooled={WRONG: 1})).made["entailment"] == "none"


def test_released_tries_start_anew_with_a_request_of_their_own():
    models = Fake(new=[candidate(worded(1))], rewritten=[candidate(worded(2))])
    run(qa_draft("released"), models)
    fresh = models.asked("generate")
    assert len(fresh) == 5
    assert len({request.repeat for request in fresh}) == 5
    assert {request.temperature for request in fresh} == {0.8}


# ------------------------------------------------------------------------------------------------------------- clusters


def test_clusters_on_hand_made_entailment():
    same = {(0, 3), (1, 2), (1, 4), (5, 6)}

    async def means_the_same(first, other):
        return (first, other) in same

    assert asyncio.run(clusters.group_by_meaning(7, means_the_same)) == [[0, 3], [1, 2, 4], [5, 6]]


def test_a_member_is_compared_with_the_first_of_its_cluster_only():
    asked = []

    async def means_the_same(first, other):
        asked.append((first, other))
        return first == 1

    assert asyncio.run(clusters.group_by_meaning(4, means_the_same)) == [[0], [1, 2, 3]]
    assert asked == [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3)]


def clustered(models, candidates=5):
    return run(qa_draft(settings=settings("clusters", candidates=candidates)), models)


def five():
    """Five candidates of three meanings: words 1 to 3, 4, and one that says the truth in other words."""
    answers = [worded(1), worded(2), worded(3), worded(4), TENTH]
    meaning = dict.fromkeys(answers[:3], "a") | {worded(4): "b", TENTH: "truth", TRUTH: "truth"}
    return Fake(
        new=[candidate(answer) for answer in answers],
        fooled={worded(1): 1, worded(2): 3, worded(3): 0, worded(4): 0, TENTH: 3},
        scored=lambda premise, hypothesis: 0.8 if meaning[premise] == meaning[hypothesis] else 0.7,
    )


def test_all_candidates_are_kept_voted_on_and_clustered_with_the_truth():
    draft = clustered(five())
    found = draft.data["clusters"]
    assert [(each["members"], each["truth"]) for each in found["clusters"]] == [
        (["5.1"], True),
        (["1.1", "2.1", "3.1"], False),
        (["4.1"], False),
    ]
    assert [each["share"] for each in found["clusters"]] == [1.0, pytest.approx(2 / 3, abs=1e-6), 0.0]
    assert all(set(clusters.MEASURES) <= set(each) for each in found["clusters"])
    assert found["clusters"][0]["rougeL"] > 0.9 > found["clusters"][1]["rougeL"]
    kept = all_candidates(draft)
    assert [each["number"] for each in kept] == ["1.1", "2.1", "3.1", "4.1", "5.1"]
    assert all(len(each["votes"]) == 3 and each["entailment"] for each in kept)
    assert "made" not in draft.data


def test_the_best_of_those_that_qualify_becomes_the_sample():
    draft = clustered(five())
    # TENTH fools all and says what the truth says; of the others worded(2) fools most.
    assert draft.data["final"]["number"] == "2.1"
    assert draft.data["final"]["difficulty"] == "hard"
    assert recipe.sample(draft).made["similarity"] == "tf-idf"
    assert recipe.sample(draft).made["preset"] == "own"


def test_the_truth_alone_is_a_cluster_without_candidates():
    models = Fake(new=[candidate(worded(1)), candidate(worded(2))], fooled={})
    draft = clustered(models, 2)
    assert draft.data["clusters"]["clusters"][0] == {"members": [], "truth": True}
    assert draft.data["final"]["fallback"] is True


def test_a_candidate_whose_reply_is_of_no_use_is_left_out():
    models = Fake(new=["no", "no", candidate()], fooled={WRONG: 1})
    draft = clustered(models, 2)
    assert len(all_candidates(draft)) == 1
    assert draft.data["tries"][0]["broken"]
    assert "broken" not in draft.data


def test_where_no_reply_can_be_used_there_is_no_cluster_and_the_reason_is_the_replies():
    with pytest.raises(Dropped, match=r"^[^0-9]*The answer is the true answer: it has to be wrong"):
        clustered(Fake(new=[candidate(TRUTH)]), 3)


def test_each_candidate_of_a_question_is_asked_for_apart():
    models = five()
    clustered(models)
    assert [request.repeat for request in models.asked("generate")] == [1, 2, 3, 4, 5]
    assert len({request.temperature for request in models.asked("generate")}) == 5


# ----------------------------------------------------------------------------------------------------------- the sample


def test_the_sample():
    sample = made(qa_draft(), Fake(fooled={WRONG: 2}))
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
    assert sample.prompt == "medhallu/generate@1"
    assert sample.made["entailment"] == "llm: entailment"
    assert sample.made["preset"] == "ours"
    assert sample.made["origin"] == "made here"
    assert "similarity" not in sample.made  # nothing was compared


def test_a_wrong_length_is_flagged_in_the_sample():
    short = worded(1, 12)
    assert made(qa_draft(), Fake(new=[candidate(short)], fooled={short: 1})).content["flags"] == ["length"]


def test_a_published_pair_is_taken_as_it_is_and_asks_nobody():
    models = Fake(bound=frozenset())
    sample = made(pair_draft(settings=settings(review_share=0.0)), models)
    assert models.requests == []
    content = sample.content
    assert (content["hallucinated"], content["truth"], content["knowledge"]) == (WRONG, TRUTH, CONTEXTS)
    assert (content["difficulty"], content["category"]) == ("hard", "II")
    assert (content["pmid"], content["mesh"][0], content["branches"]) == ("90000001", "Blood Glucose", ["C"])
    assert sample.made == {"review": "not sampled", "reviewers": "none", "origin": "published"}


def test_a_published_pair_without_its_article_has_neither_pmid_nor_branch():
    draft = pair_draft()
    content = made(replace(draft, record=replace(draft.record, joined={})), Fake()).content
    assert (content["pmid"], content["mesh"], content["branches"]) == ("", [], [])


def test_the_share_that_is_reviewed_is_drawn_by_record_and_stays():
    def reviewed(number, share, **changes):
        draft = pair_draft(settings=settings(review_share=share), **changes)
        draft = replace(draft, record=replace(draft.record, external_id=f"p-{number}"))
        return made(draft, Fake()).made["review"] == "sampled"

    assert not any(reviewed(number, 0.0) for number in range(50))
    assert all(reviewed(number, 1.0) for number in range(50))
    assert 0.15 < sum(reviewed(number, 0.2) for number in range(500)) / 500 < 0.25
    assert all(reviewed(number, 0.2) == reviewed(number, 0.2, version=2) for number in range(50))


@pytest.mark.parametrize("reviewers", ["one", "two"])
def test_only_what_is_sampled_says_who_reviews_it(reviewers):
    def said(share):
        return made(pair_draft(settings=settings(review_share=share, reviewers=reviewers)), Fake()).made

    assert (said(1.0)["review"], said(1.0)["reviewers"]) == ("sampled", reviewers)
    assert (said(0.0)["review"], said(0.0)["reviewers"]) == ("not sampled", "none")
    assert made(qa_draft("released"), Fake(fooled={WRONG: 1})).made["reviewers"] == "none"


# -------------------------------------------------------------------------------------------------- what a launch is told


def test_roles_are_needed_for_what_is_made_and_not_for_what_was_published():
    assert recipe.RECIPE.kinds == {"qa", "qa-pair"}
    assert all(role.kinds == {"qa"} for role in recipe.RECIPE.roles)
    assert {role.name for role in recipe.RECIPE.roles if role.optional} == {"entailment", "embedder"}
    assert {role.name: role.default for role in recipe.RECIPE.roles if role.default} == {
        "critic": "generator",
        "entailment": "critic",
    }


def test_a_launch_is_estimated_by_two_tries():
    asked = [ask for step in recipe.RECIPE.steps if step.applies(qa_draft()) for ask in step.asks(qa_draft())]
    assert asked.count(("voter_1", "medhallu/vote@1")) == 4
    assert asked.count(("entailment", "medhallu/entail@1")) == 8
    assert asked.count(("generator", "medhallu/generate@1")) == 1
    assert asked.count(("generator", "medhallu/regenerate@1")) == 1
    assert asked.count(("critic", "medhallu/rewrite@1")) == 2
    assert asked.count(("critic", "medhallu/critique@1")) == 3  # one between the two tries


def test_a_launch_of_clusters_is_estimated_by_its_candidates():
    draft = qa_draft("clusters")
    asked = [ask for step in recipe.RECIPE.steps if step.applies(draft) for ask in step.asks(draft)]
    assert asked.count(("generator", "medhallu/generate@1")) == 50
    assert asked.count(("voter_3", "medhallu/vote@1")) == 50


def test_published_pairs_ask_nothing():
    assert not [ask for step in recipe.RECIPE.steps if step.applies(pair_draft()) for ask in step.asks(pair_draft())]


def test_no_two_samples_may_have_the_same_question_and_answer():
    assert recipe.text_to_compare(made(pair_draft(), Fake())) == f"{QUESTION}\n{WRONG}"
