"""How replies to the detection prompt are read, and how the released script would have read
them."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mhb_site.benchmarks.medhallu.parsing import Reading, read_reply

pytestmark = pytest.mark.plain
FACTUAL, HALLUCINATED, UNSURE, UNPARSED = Reading.FACTUAL, Reading.HALLUCINATED, Reading.UNSURE, Reading.UNPARSED


def read_as_released(reply: str) -> Reading:
    """Read a reply by the released script's rules, as described in source_formats, MedHallu,
    'Parsing order'."""
    text = reply.lower()
    if any(sign in text for sign in ("1", "not", "non")):
        return HALLUCINATED
    if any(sign in text for sign in ("not sure", "pass", "skip", "2")):
        return UNSURE
    return FACTUAL


@pytest.mark.parametrize(
    ("reply", "reading"),
    [
        ("0", FACTUAL),
        ("1", HALLUCINATED),
        ("2", UNSURE),
        ("  1\n", HALLUCINATED),
        ("1.", HALLUCINATED),
        ("(0)", FACTUAL),
        ("**1**", HALLUCINATED),
        ("`0`", FACTUAL),
        ("```\n1\n```", HALLUCINATED),
        ("Answer: 1", HALLUCINATED),
        ("**Answer:** 0.", FACTUAL),
        ("The answer is 1.", HALLUCINATED),
        ("My final verdict is: 2", UNSURE),
        ('{"answer": 1}', HALLUCINATED),
        ("<answer>0</answer>", FACTUAL),
        (r"$\boxed{1}$", HALLUCINATED),
        ("１", HALLUCINATED),
        ("1 (hallucinated)", HALLUCINATED),
        ("1: the answer is hallucinated", HALLUCINATED),
        ("0 - factual", FACTUAL),
        ("2 = not sure", UNSURE),
        ("Hallucinated", HALLUCINATED),
        ("This answer is a hallucination.", HALLUCINATED),
        ("FACTUAL", FACTUAL),
        ("The answer is not hallucinated.", FACTUAL),
        ("non-hallucinated", FACTUAL),
        ("No hallucination", FACTUAL),
        ("It isn't hallucinated.", FACTUAL),
        ("The answer isn’t hallucinated.", FACTUAL),
        ("It isn't factual", HALLUCINATED),
        ("Hallucinated: no", FACTUAL),
        ("Hallucinated: Yes.", HALLUCINATED),
        ("**Hallucination**: No", FACTUAL),
        ('{"hallucinated": false}', FACTUAL),
        ('{"hallucinated": true}', HALLUCINATED),
        ("Factual: yes", FACTUAL),
        ("factual = no", HALLUCINATED),
        ("0, not 1", FACTUAL),
        ("1 (not 0)", HALLUCINATED),
        ("没有明显的幻觉", FACTUAL),
        ("不存在任何幻觉", FACTUAL),
        ("是否幻觉：否", FACTUAL),
        ("是否存在幻觉：是", HALLUCINATED),
        ("I'm not 100% sure", UNSURE),
        ("I am not very certain.", UNSURE),
        ("Not factual", HALLUCINATED),
        ("non-factual", HALLUCINATED),
        ("not sure", UNSURE),
        ("I'm not sure.", UNSURE),
        ("I am unsure", UNSURE),
        ("Not  SURE", UNSURE),
        ("答案：1", HALLUCINATED),
        ("答案是0。", FACTUAL),
        ("最终答案为 2", UNSURE),
        ("1（幻觉）", HALLUCINATED),
        ("存在幻觉", HALLUCINATED),
        ("该回答是幻觉。", HALLUCINATED),
        ("没有幻觉", FACTUAL),
        ("不是幻觉", FACTUAL),
        ("该回答符合事实。", FACTUAL),
        ("回答是真实的", FACTUAL),
        ("不符合事实", HALLUCINATED),
        ("不是真实的", HALLUCINATED),
        ("不确定", UNSURE),
        ("我不确定。", UNSURE),
        ("无法确定", UNSURE),
        # A decision on its own line, with an explanation.
        ("1\n\nThe trial of 40 patients found no such effect; the factual claim is the opposite.", HALLUCINATED),
        ("The passage supports the claim, but its evidence is uncertain.\n\nAnswer: 0", FACTUAL),
        ("1\nThe answer is hallucinated because it names another pathway.", HALLUCINATED),
    ],
)
def test_a_clear_decision_is_read(reply: str, reading: Reading) -> None:
    assert read_reply(reply, unsure=True) is reading


@pytest.mark.parametrize(
    "reply",
    [
        "",
        " \n\t",
        "...",
        "```\n```",
        "0 or 1",
        "0/1",
        "0, 1 or 2",
        "0\n1",
        "1\n2. Then there is the matter of dose.\n0",
        "1 (factual)",
        "0: factual, 1: hallucinated",
        "3",
        "10",
        "12",
        "1.0",
        "-1",
        "1%",
        "not 1",
        "Yes",
        "No",
        "True",
        "not hallucinated, or hallucinated",
        "It is hard to say whether this is hallucinated.",
        "Is it hallucinated?",
        "The answer would be hallucinated if the trial had been blinded.",
        "The study included 1 patient.",
        "No, the effect was not seen in 12 of the patients.",
        "I cannot assess this.",
        "As an AI model, I must pass.",
        "1\nThough I am not sure about it.",
        "1\n我不确定。",
        "1\nI'm not 100% sure",
        "1\nI am not really sure, as the passage is short.",
        "1\nI'm not completely certain of it, though.",
        "Label: 1\nThe answer shown is 0",
        "1\nSo the answer given is 0, as far as the passage goes.",
        "0, not 0",
        "not 1, 0 or 2",
        "Hallucinated: no, yes",
        "Hallucinated: no\n1",
        "1, not 10",
        "不是明显的幻觉",
        "是否存在幻觉？",
        "是否存在幻觉：无法判断",
        "1\nOn reflection, the answer is factual, as the passage says so.",
        "该回答可能存在幻觉，也可能是真实的。",
        "没有足够信息判断是否存在幻觉",
        "nonsense",
        "Another option.",
    ],
)
def test_a_reply_without_one_clear_decision_is_unparsed(reply: str) -> None:
    assert read_reply(reply, unsure=True) is UNPARSED


@pytest.mark.parametrize("reply", ["2", "2.", "Answer: 2", "not sure", "I am not sure.", "不确定"])
def test_not_sure_is_unparsed_if_it_is_not_offered(reply: str) -> None:
    assert read_reply(reply, unsure=True) is UNSURE
    assert read_reply(reply, unsure=False) is UNPARSED


@pytest.mark.parametrize(
    ("reply", "theirs", "ours"),
    [
        ("not sure", HALLUCINATED, UNSURE),
        ("I'm not sure.", HALLUCINATED, UNSURE),
        ("The answer is not hallucinated.", HALLUCINATED, FACTUAL),
        ("None of this can be judged.", HALLUCINATED, UNPARSED),
        ("", FACTUAL, UNPARSED),
        ("I refuse.", FACTUAL, UNPARSED),
        ("Hallucinated", FACTUAL, HALLUCINATED),
        ("0, as 12 of the 31 patients improved", HALLUCINATED, UNPARSED),
        ("The drug bypasses the liver.", UNSURE, UNPARSED),
        ("不确定", FACTUAL, UNSURE),
        ("存在幻觉", FACTUAL, HALLUCINATED),
    ],
)
def test_mistakes_of_the_released_parser_are_avoided(reply: str, theirs: Reading, ours: Reading) -> None:
    assert read_as_released(reply) is theirs, "as described"
    assert read_reply(reply, unsure=True) is ours


PIECES = [
    "0", "1", "2", "10", "not", "sure", "hallucinated", "factual", "non-", "answer", "is", ":", ".", "**", "\\boxed{", "}",
    "because", "I am", "\n", "\u2028", "\ud800", "不", "确定", "幻觉", "没有", "事实", "是", "答案",
]  # fmt: skip
REPLIES = st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map(" ".join))


@given(reply=REPLIES, unsure=st.booleans())
def test_any_text_is_read_without_an_error(reply: str, unsure: bool) -> None:
    reading = read_reply(reply, unsure=unsure)
    assert reading in set(Reading) - (set() if unsure else {UNSURE})


@given(before=REPLIES, after=REPLIES, doubt=st.sampled_from(["not sure", "Not sure", "unsure", "我不确定", "无法确定"]))
def test_a_reply_that_is_not_sure_is_never_read_as_hallucinated_or_factual(before: str, after: str, doubt: str) -> None:
    for glue in (" ", "\n"):
        assert read_reply(glue.join([before, doubt, after]), unsure=True) in (UNSURE, UNPARSED)


@given(reply=st.text(st.characters(exclude_categories=["N", "L"])))
def test_a_reply_without_letters_or_digits_is_unparsed(reply: str) -> None:
    assert read_reply(reply, unsure=True) is UNPARSED


@given(reply=REPLIES)
def test_a_decision_is_read_only_from_a_reply_with_a_sign_of_it(reply: str) -> None:
    text = unicodedata.normalize("NFKC", reply).casefold()
    signs = {
        FACTUAL: ("0", "factual", "hallucinat", "事实", "真实", "属实", "幻觉", "虚构"),
        HALLUCINATED: ("1", "factual", "hallucinat", "事实", "真实", "属实", "幻觉"),
        UNSURE: ("2", "sure", "certain", "确定", "不清楚", "拿不准"),
        UNPARSED: ("",),
    }
    assert any(sign in text for sign in signs[read_reply(reply, unsure=True)])


def test_a_very_long_reply_is_read_in_reasonable_time() -> None:
    for filler in ("answer: ", "not ", " ", "1 ", "is is ", "不"):
        assert read_reply(filler * 20_000 + "!x", unsure=True) is UNPARSED
        assert read_reply("1\n" + filler * 20_000 + "!x", unsure=True) in (HALLUCINATED, UNPARSED)
