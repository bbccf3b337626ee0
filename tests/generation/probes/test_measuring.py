"""Probes on worlds of which it is known whether they leak."""

from dataclasses import replace

import pytest

from bench import probe_worlds as worlds
from generation.probes.folds import clusters, folds
from generation.probes.labels import sentence
from generation.probes.measuring import ProbeCase, ProbeReport, ProbeResult, measure
from generation.probes.stored import as_shown, from_json, to_json
from generation.recipes.labelled import LabelledAnswers

pytestmark = pytest.mark.plain
SEEDS = 1  # bench/probes.py tries 200


def of(report: ProbeReport, name: str) -> ProbeResult:
    return next(result for result in report.probes if result.name == name)


def test_a_world_without_a_leak_stays_at_one_half() -> None:
    for seed in range(SEEDS):
        report = measure(worlds.no_leak(seed))
        assert report.tells is False
        words = of(report, "words")
        assert words.low is not None
        assert words.low < 0.5
        assert words.shuffled == pytest.approx(0.5, abs=0.03)


def test_a_leak_is_found_where_it_is() -> None:
    for world, name in (
        (worlds.leak_by_length, "length"),
        (worlds.leak_by_words, "few_words"),
        (worlds.leak_by_overlap, "overlap_source"),
    ):
        for seed in range(SEEDS):
            report = measure(world(seed))
            result = of(report, name)
            assert report.tells
            assert result.tells
            assert result.accuracy == pytest.approx(0.62, abs=0.06)  # at AUC .65, the best cut labels 61 to 65 %


def test_near_duplicates_never_meet_in_two_folds() -> None:
    cases = worlds.duplicates(0)
    cluster = clusters([case.labelled for case in cases], [case.record for case in cases])
    fold_of: dict[str, set[int]] = {}
    for case, fold in zip(cases, folds(cluster).tolist(), strict=True):
        fold_of.setdefault(case.key.split("-")[1], set()).add(fold)
    split = [original for original, seen in fold_of.items() if len(seen) > 1]
    assert split == []
    assert measure(cases).tells is False


def test_duplicates_in_other_letters_and_in_one_answer_share_a_fold() -> None:
    generator_text = "the drug lowered pressure in all of the forty patients who took it every day for a month"
    first = LabelledAnswers((generator_text, "none of them had any benefit from it at all"), (True, False))
    other = LabelledAnswers(
        (generator_text.upper() + "!", "a different answer that shares nothing with the rest"), (True, False)
    )
    far = LabelledAnswers(("bones heal slowly in winter", "bones heal fast in winter"), (True, False))
    joined = clusters([first, other, far], ["a", "b", "c"]).tolist()
    assert joined[0] == joined[1] != joined[2]
    assert len(set(clusters([far, far], ["same", "same"]).tolist())) == 1
    with_origin = [replace(far, origins=("x",)), replace(first, origins=("x",))]
    assert len(set(clusters(with_origin, ["a", "b"]).tolist())) == 1


def test_the_longest_option_and_the_first_position_are_told() -> None:
    cases = []
    for number, pair in enumerate(worlds.no_leak(0, 100)):
        answer = pair.labelled.answers[0]
        options = [f"{answer} w{number}a", f"w{number}b {answer[:20]}", f"w{number}c", f"w{number}d"]
        cases.append(
            ProbeCase(str(number), str(number), LabelledAnswers(tuple(options), (True, False, False, False), True))
        )
    report = measure(cases)
    assert report.chance == 0.25
    assert (of(report, "position").accuracy, of(report, "longest").accuracy) == (1.0, 1.0)
    assert of(report, "constant").accuracy is None
    assert of(report, "position").f1 is None
    shuffled = of(report, "position").shuffled
    assert shuffled == pytest.approx(0.25, abs=0.08)


def test_always_wrong_has_the_share_of_wrong_answers() -> None:
    constant = of(measure(worlds.no_leak(1)), "constant")
    assert (constant.accuracy, constant.f1, constant.n) == (0.5, 0.6667, 600)


def test_words_that_tell_are_named_with_their_cases() -> None:
    report = measure(worlds.leak_by_words(0))
    best = report.words[0]
    assert best.word == "marker0"
    assert best.weight > 0
    assert best.wrong > best.right
    texts = {case.key: " ".join(case.labelled.answers) for case in worlds.leak_by_words(0)}
    assert all("marker0" in texts[key] for key, _held_out in best.cases)
    assert report.telling


def test_chinese_answers_are_read_by_characters() -> None:
    cases = []
    for number, pair in enumerate(worlds.no_leak(2, 60)):
        subject = "".join(
            chr(0x4E00 + (len(word) * 37 + ord(word[0]) * number) % 900) for word in pair.labelled.answers[0].split()
        )
        answers = (f"{subject}未见明显差异", f"{subject}显著降低风险")
        cases.append(ProbeCase(str(number), str(number), LabelledAnswers(answers, (True, False))))
    report = measure(cases)
    assert of(report, "words").accuracy == 1.0
    assert any(word.word in "显著降低风险" and len(word.word) > 1 for word in report.words)


def test_where_there_is_no_number_there_is_a_sentence() -> None:
    pairs = worlds.no_leak(0, 40)
    few = measure(pairs[:29])
    right_only = [replace(case, labelled=replace(case.labelled, right=(True, True))) for case in pairs]
    empty = [replace(case, labelled=replace(case.labelled, answers=("…", case.labelled.answers[1]))) for case in pairs]
    alike = [replace(case, record="one") for case in pairs]
    rare = [
        replace(case, labelled=replace(case.labelled, answers=case.labelled.answers[:1], right=(number > 8,)))
        for number, case in enumerate(pairs)
    ]
    for report, words in (
        (few, "counted: 29."),
        (measure(right_only), "same label"),
        (measure(empty), "counted: 0."),
        (measure(alike), "groups: 1."),
        (measure(rare), "rarer label: 9."),
        (measure([]), "counted: 0."),
    ):
        assert report.reason is not None
        assert words in sentence(report.reason)
        assert report.probes == ()
        assert report.tells is None
        assert as_shown(report, with_held_out=True)["chance"] is None
    assert measure(empty).left_out == {"empty-answer": 40}


def test_a_label_that_one_fold_alone_has_teaches_nothing() -> None:
    statements = []
    for case in worlds.no_leak(0, 60):
        one = replace(case.labelled, answers=case.labelled.answers[:1], right=(True,))
        statements.append(replace(case, labelled=one))
    fold = folds(clusters([case.labelled for case in statements], [case.record for case in statements]), 0)
    of_one_fold = [place for place in range(60) if fold[place] == 0][:10]
    for place in of_one_fold:
        statements[place] = replace(statements[place], labelled=replace(statements[place].labelled, right=(False,)))
    report = measure(statements)
    assert len(of_one_fold) == 10
    assert report.reason is None
    assert report.tells is False


def test_a_facet_with_one_value_and_a_small_group_have_a_sentence() -> None:
    pairs = [
        replace(
            case,
            labelled=replace(
                case.labelled, facets={"generator": "one", "level": "hard" if n < 50 else "easy" if n < 90 else "rare"}
            ),
        )
        for n, case in enumerate(worlds.no_leak(0, 100))
    ]
    groups = {(group.facet, group.value): group for group in measure(pairs).groups if group.probe == "words"}
    assert groups["generator", "one"].accuracy is None
    assert groups["generator", "one"].reason is not None
    assert groups["level", "rare"].reason is not None
    assert groups["level", "hard"].n == 100
    assert groups["level", "hard"].accuracy is not None


def test_what_is_held_out_is_shown_to_nobody_else() -> None:
    cases = [replace(case, held_out=number % 2 == 0) for number, case in enumerate(worlds.leak_by_words(0))]
    report = from_json(to_json(measure(cases)))
    hidden = {case.key for case in cases if case.held_out}
    public, everything = as_shown(report, with_held_out=False), as_shown(report, with_held_out=True)
    named = {key for word in public["words"] for key in word["cases"]} | {sample["key"] for sample in public["samples"]}
    assert named
    assert not named & hidden
    assert hidden & {key for word in everything["words"] for key in word["cases"]}


def test_the_same_cases_give_the_same_report() -> None:
    cases = worlds.leak_by_length(0, 60)
    assert measure(cases) == measure(cases)
