"""The voters: how votes are read, in which order answers are shown, and how difficulty follows."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from generation.llm.fencing import read_data
from mhb_site.benchmarks.medhallu.votes import RETRY_MESSAGE, VOTERS, collect_votes, difficulty, read_vote
from tests.benchmarks.medhallu.helpers import TRUTH, WRONG, FakeModels, candidate, qa_draft, settings

pytestmark = pytest.mark.plain


def collect(models, number="1.1", **changes):
    return asyncio.run(collect_votes(qa_draft(**changes), models, candidate(), number))


@pytest.mark.parametrize(
    ("reply", "choice"),
    [
        ("1", 1),
        ("2", 2),
        (" 2.\n", 2),
        ("**1**", 1),
        ("(2)", 2),
        ('"1"', 1),
        ("", None),
        ("12", None),
        ("1 or 2", None),
        ("3", None),
        ("0", None),
        ("Answer 2", 2),
        ("2 is better", 2),
        ("neither", None),
        ("1 2", None),
        ("\uff12", 2),
        ("2。", 2),
        ("「2」", 2),
        ("2:", 2),
        ("2\uff1a", 2),
        ("Answer: 2", 2),
        ("Option 1", 1),
        ("<answer>2</answer>", 2),
        ("$\\boxed{1}$", 1),
        ('{"choice": 2}', 2),
        ("SECOND", 2),
        ("The first answer is more accurate.", 1),
        ("第二个更准确。", 2),
        ("答案：1", 1),
        ("我选择2", 2),
        ("2, not 1", 2),
        ("2\n\nAnswer 1 claims the opposite of what trials found.", 2),
        ("Answer 1 leaves out the dose, answer 2 does not.\n\n**2**", 2),
        ("not 2", None),
        ("Not the second", None),
        ("2 is wrong", None),
        ("1\nThe better one is 2.", None),
        ("2\nOn reflection, the more accurate answer is 1 by far.", None),
        ("1\nI'm not sure.", None),
        ("2.5", None),
        ("1%", None),
        ("-1", None),
        ("Both seem accurate to me.", None),
        ("First, both are plausible.", None),
        ("1. It claims a fall.\n2. It claims a rise.", None),
        ("1\n2", None),
        ("Between 1 and 2 I cannot choose", None),
    ],
)
def test_a_vote_is_read_only_if_it_names_exactly_one_answer(reply, choice):
    assert read_vote(reply) == choice


@pytest.mark.parametrize(("fooled", "level"), [(0, ""), (1, "easy"), (2, "medium"), (3, "hard")])
def test_the_difficulty_is_the_number_of_three_voters_fooled(fooled, level):
    assert difficulty(fooled, 3) == level


def test_fooling_one_of_two_voters_is_easy_and_both_is_hard():
    assert [difficulty(fooled, 2) for fooled in range(3)] == ["", "easy", "hard"]


@pytest.mark.parametrize("fooled", range(4))
def test_a_voter_that_chooses_the_hallucinated_answer_is_fooled_in_either_order(fooled):
    for number in range(20):
        votes = collect(FakeModels(fooled={WRONG: fooled}), f"{number}.1")
        assert [vote["fooled"] for vote in votes] == [voter < fooled for voter in range(3)]
        assert [vote["role"] for vote in votes] == list(VOTERS)


def test_the_order_is_balanced_and_recorded_as_shown():
    models = FakeModels()
    orders = []
    for number in range(400):
        votes = collect(models, f"{number}.1")
        for vote, (role, request) in zip(votes, models.requests[-3:], strict=True):
            blocks = read_data(request.messages[1].text)
            assert role == vote["role"]
            assert (blocks["FIRST"] == TRUTH) == (vote["first"] == "truth")
            assert {blocks["FIRST"], blocks["SECOND"]} == {TRUTH, WRONG}
        orders.append(tuple(vote["first"] for vote in votes))
    for voter in range(3):
        share = sum(order[voter] == "truth" for order in orders) / len(orders)
        assert 0.42 < share < 0.58
    order_counts = Counter(orders)  # each voter has its own draw
    assert len(order_counts) == 8
    assert min(order_counts.values()) > 25


def test_the_order_is_a_function_of_record_version_candidate_and_voter():
    first = [vote["first"] for vote in collect(FakeModels())]
    assert first == [vote["first"] for vote in collect(FakeModels())]
    other_orders = {tuple(vote["first"] for vote in collect(FakeModels(), version=version)) for version in range(1, 30)}
    assert len(other_orders) == 8


def test_voters_do_not_see_the_context():
    models = FakeModels()
    collect(models)
    for _role, request in models.requests:
        assert set(read_data(request.messages[1].text)) == {"QUESTION", "FIRST", "SECOND"}
        assert "walked after each meal for two weeks" not in "".join(message.text for message in request.messages)


def test_a_vote_that_names_no_answer_even_on_retry_is_broken():
    models = FakeModels(fooled={WRONG: 3}, votes={"voter_2": "Both are good."})
    votes = collect(models)
    assert [(vote["fooled"], vote["broken"], vote["chosen"]) for vote in votes][1] == (False, True, None)
    assert (votes[1]["reply"], votes[1]["unread"]) == ("Both are good.", "Both are good.")
    assert [vote["broken"] for vote in votes] == [False, True, False]
    assert [role for role, _request in models.requests].count("voter_2") == 2


def test_a_voter_that_names_no_answer_is_asked_once_more_and_then_counts():
    class Vague(FakeModels):
        def reply_to(self, role, request):
            return super().reply_to(role, request) if "cannot be used" in request.messages[-1].text else "Hard to say."

    models = Vague(fooled={WRONG: 2})
    votes = collect(models)
    assert [(vote["fooled"], vote["broken"], vote["unread"]) for vote in votes] == [
        (True, False, "Hard to say."),
        (True, False, "Hard to say."),
        (False, False, "Hard to say."),
    ]
    assert len(models.requests) == 6
    assert [message.text for message in models.requests[-1][1].messages[-2:]] == ["Hard to say.", RETRY_MESSAGE]


def test_a_very_long_reply_is_read_in_reasonable_time():
    for filler in ("answer: ", "choose the ", "not ", " ", "1 ", "first ", "不", "one is "):
        assert read_vote("2\n" + filler * 20_000 + "!x") in (2, None)
        assert read_vote(filler * 20_000 + "!x") is None


def test_voters_at_one_endpoint_send_distinct_requests():
    models = FakeModels()
    collect(models, settings=settings(order="truth-first"))
    assert [request.repeat for _role, request in models.requests] == [0, 1, 2]


def test_the_released_preset_shows_the_truth_first_and_the_justification_and_reads_any_2():
    models = FakeModels(votes={"voter_1": "Option 2, not 1", "voter_2": "1", "voter_3": ""})
    votes = collect(models, preset="released")
    assert [vote["first"] for vote in votes] == ["truth"] * 3
    assert [(vote["fooled"], vote["broken"]) for vote in votes] == [(True, False), (False, False), (False, False)]
    request = models.requests[0][1]
    assert read_data(request.messages[0].text)["SECOND"] == f"{WRONG}\nThe findings are swapped."
    assert (request.max_tokens, request.temperature) == (4, 0.3)


def test_a_long_reply_is_truncated():
    (first, *_rest) = collect(FakeModels(votes={"voter_1": "x" * 9_000}))
    assert len(first["reply"]) == 500


def test_drafts_of_different_records_draw_different_orders():
    draft = qa_draft()
    orders = set()
    for number in range(40):
        other_draft = replace(draft, record=replace(draft.record, external_id=f"r{number}"))
        orders.add(
            tuple(vote["first"] for vote in asyncio.run(collect_votes(other_draft, FakeModels(), candidate(), "1.1")))
        )
    assert len(orders) == 8
