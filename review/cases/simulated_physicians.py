"""Simulated physicians: they work the queue through the same services as real ones, so that the loop can be watched.

They know no benchmark: whatever a case asks, they answer. Every note of theirs says that it is simulated.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from review import errors
from review.access import visibility
from review.assignments import claims, first_look, services
from review.assignments import queries as assignments_queries
from review.cases import queries
from review.common import benchmarks
from review.models import Assignment, Case, Review, User
from review.rewordings import queries as rewordings_queries
from review.rewordings import services as rewordings_services
from review.rules import consolidation
from review.rules.blocks import passages
from review.rules.case_spec import answers_from_json
from review.rules.questions import Answer, Answers, Choice, Citation, Form, Question, Reason, RubricAnswer
from review.rules.state_machine import ADJUDICATORS, Declaration, Phase, Role, State, Verdict

SIGNED = "(Simulated physician)"
PRAISE = (
    "Reads like a real consultation.",
    "I would expect this in my clinic.",
    "Clear and consistent with the record.",
    "The clinical detail is right.",
)
OBJECTIONS = (
    "A patient would not put it like this.",
    "This detail does not fit the history given earlier.",
    "The dose is outside anything used in practice, so it gives itself away.",
    "The question can be answered from the text after all.",
)
RUBRIC_OBJECTIONS = (
    "This would also be met by an answer that falls for the trap.",
    "It asks for something other than what was planted.",
    "Two physicians would not score this alike.",
)
ADDITIONS = (" and says why", " before giving any other advice", " and does not build on it later in the answer")
ADDITIONS_ZH = ("，并说明理由", "，且不以此为依据作进一步推断")
CORRECTS = 0.2  # how often a primary reviewer rewords a rubric
MENDABLE = 0.9  # how often the reason of a rejection is one that the next version can mend
OTHER_HARM = 0.2  # how often somebody sees another harm than the sample has
REFERENCES = {"guideline": "Simulated guideline", "doi": "10.1000/1", "pmid": "1", "url": "https://example.org/"}
REWORDS = 0.1  # how often a secondary who agrees rewords one as well
SAME_MEANING = 0.8  # how often that is said to leave the meaning as it is, and how often the primary sees it so, too
PERSUADED = 0.4  # how often a secondary takes over the primary's conclusion once it is open
CJK = re.compile(r"[\u4e00-\u9fff]")


@dataclass(frozen=True, slots=True)
class Summary:
    """What was done: reviews submitted, their verdicts, and where all cases stand afterwards (state -> how many)."""

    seed: int
    physicians: int
    reviews: int
    verdicts: Mapping[str, int]
    corrected: int
    inadequate: int
    states: Mapping[str, int]


def work_queue(
    seed: int, limit: int | None, physicians: Sequence[User], *, dissent: float = 0.15, reject: float = 0.1
) -> Summary:
    """Let `physicians` take and submit until `limit` reviews are in (None: until nothing waits), then stop as they are.

    They work side by side: in each round everybody either submits what is in hand or takes the next case, so that some
    are in the middle of a case when the limit comes. With a limit, the last disputed case waits in its adjudicators' hands
    as long as there is other work. The same database, physicians and seed give the same reviews.

    Args:
        dissent: chance that a physician, alone with a case, judges it otherwise than it deserves.
        reject: share of the cases that deserve to be rejected.

    Raises:
        NotSimulated: one of `physicians` is a person's account, in whose name no script may review.
    """
    if not all(physician.simulated for physician in physicians):
        raise errors.NotSimulated
    order = random.Random(f"{seed}/order")
    verdicts: Counter[str] = Counter()
    corrected = inadequate = done = 0
    acted, patient = True, limit is not None
    while acted and (limit is None or done < limit):
        acted, asked = False, _asked_for_wordings()
        for physician in order.sample(physicians, len(physicians)):
            if limit is not None and done >= limit:
                break
            if physician.pk in asked:
                acted |= _answer_rewordings(physician, seed, keep_one=patient)
            held = assignments_queries.in_hand(physician)
            if held is None:
                acted |= claims.claim_next(physician) is not None
                continue
            if patient and held.role in ADJUDICATORS and _disputed() == 1:
                continue
            acted = True
            review = _review(physician, held, seed, dissent, reject)
            if review is not None:
                if review.answers["declaration"]:
                    asked = _asked_for_wordings()
                done += 1
                verdicts[review.verdict] += 1
                inadequate += review.inadequate
                corrected += any(finding["value"] == "corrected" for finding in review.answers["rubrics"].values())
        if patient and not acted:
            patient, acted = False, True
    return Summary(
        seed=seed,
        physicians=len(physicians),
        reviews=done,
        verdicts={verdict.value: verdicts[verdict] for verdict in Verdict},
        corrected=corrected,
        inadequate=inadequate,
        states=queries.funnel().counts,
    )


def _disputed() -> int:
    return Case.objects.filter(state=State.ADJUDICATION).count()


def _asked_for_wordings() -> set[int]:
    """Whom a wording was put to that nobody has answered, by their keys."""
    return set(rewordings_queries.pending().values_list("physician", flat=True))


def _answer_rewordings(physician: User, seed: int, *, keep_one: bool) -> bool:
    """Accept wordings put to the physician, or object; whether there was any. keep_one: the last of all waits, to be seen."""
    answered = False
    for rewording in rewordings_queries.waiting_for(physician):
        if keep_one and rewordings_queries.pending().count() == 1:
            break
        chance = random.Random(f"{seed}/{rewording.case.lineage}/{rewording.case.version}/rewording")
        try:
            if chance.random() < SAME_MEANING:
                rewordings_services.accept(physician, rewording.pk)
            else:
                rewordings_services.object_to(physician, rewording.pk, f"This asks for more than I approved. {SIGNED}")
            answered = True
        except (errors.RewordingAnswered, errors.RewordingLapsed, errors.CaseClosed):
            continue
    return answered


def _review(physician: User, held: Assignment, seed: int, dissent: float, reject: float) -> Review | None:
    """Submit the review that is due; None when somebody else was faster."""
    token, case = held.token, held.case
    if token is None:
        return None
    sample = f"{seed}/{case.lineage}/{case.version}"
    deserves = Verdict.REJECT if random.Random(sample).random() < reject else Verdict.APPROVE
    chance = random.Random(f"{sample}/{held.role}/{held.phase}/{physician.username}")
    answers = _answers(held, case, physician, chance, deserves, dissent, seed)
    answers = _detailed(case, answers, random.Random(f"{sample}/{held.role}/{held.phase}/{physician.username}/details"))
    try:
        if not visibility.is_revealed(physician, held):
            first_look.reveal(physician, held.pk, token, answers, posted=held)
        return services.submit(physician, held.pk, token, answers, posted=held)
    except (errors.LeaseLost, errors.AlreadySubmitted, errors.CaseClosed):
        return None


def _answers(
    held: Assignment, case: Case, physician: User, chance: random.Random, deserves: Verdict, dissent: float, seed: int
) -> Answers:
    form, shown = visibility.asked_of(held, case).form, list(visibility.reviews_shown_to(physician, case, held))
    if case.kind == Case.Kind.VALIDATION:
        return _judged(case, form, chance, dissent / 3)
    own = {review.phase: answers_from_json(review.answers) for review in shown if review.physician_id == physician.pk}
    if held.phase == Phase.CONFIRM:
        primary = next(answers_from_json(review.answers) for review in shown if review.role == Role.PRIMARY)
        confirmed = _asked(form, _confirmed(form, own[Phase.COMMIT], primary, chance))
        again = random.Random(f"{seed}/{case.lineage}/{case.version}/declaration")
        return _declared(held, form, _dissenting(form, confirmed, primary, chance), primary, again)
    if held.phase == Phase.DISCUSS:
        if _blocked_at_first_look(form, own[Phase.COMMIT]):
            return own[Phase.COMMIT]
        # After the discussion most come round to what the case deserves; some stay with their first vote.
        verdict = deserves if chance.random() < 0.75 else Verdict(own[Phase.COMMIT].verdict)
        return _fresh(form, verdict, chance)
    # A case that reached the adjudicators is a hard one: they differ more often.
    doubt = min(2 * dissent, 0.5) if held.role in ADJUDICATORS else dissent
    other = Verdict.APPROVE if deserves is Verdict.REJECT else Verdict.REJECT
    answers = _fresh(form, other if chance.random() < doubt else deserves, chance)
    return _reworded(form, answers, chance) if held.role == Role.PRIMARY else answers


def _judged(case: Case, form: Form, chance: random.Random, error: float) -> Answers:
    """What a model's answer meets, by the benchmark's `practice.meets` where it has one; wrong with the chance `error`.

    The first choice says that a criterion is met, the second that it is not, the last that nobody can tell.
    """
    meets = getattr(benchmarks.module(case.benchmark, "practice"), "meets", None)
    *asked, answer = [passage.text for passage in passages(case.frozen.blocks)]
    questions = {}
    for question in form.questions:
        met = meets("\n".join(asked), answer, question.asks) if meets else chance.random() < 0.5
        if met is not None and chance.random() < error:
            met = not met
        at = -1 if met is None else int(not met)
        questions[question.key] = Answer(question.choices[at].value)
    return Answers(questions)


def _asked(form: Form, answers: Answers) -> Answers:
    """Without what another stage was asked, where the primary's answers were taken over, and with what this one asks."""
    fresh = {question.key: Answer(_plainest(question), SIGNED) for question in form.questions}
    return replace(answers, questions={key: answers.questions.get(key, answer) for key, answer in fresh.items()})


def _blocked_at_first_look(form: Form, own: Answers) -> bool:
    """What was said before the reveal stands; if it blocks, the physician cannot come round to an approval."""
    return any(_blocks(question, own.questions.get(question.key, Answer())) for question in form.first_look.questions)


def _confirmed(form: Form, blind: Answers, primary: Answers, chance: random.Random) -> Answers:
    """The secondary's answer after seeing the primary's: taken over, or kept with the primary's better wordings."""
    if blind.verdict != primary.verdict:
        if chance.random() >= PERSUADED or _blocked_at_first_look(form, blind):
            return blind
        return replace(primary, change_reason=f"The primary reviewer noticed what I had missed. {SIGNED}")
    reworded = {key: finding for key, finding in primary.rubrics.items() if finding.value == "corrected"}
    if not reworded or blind.verdict == Verdict.REJECT:
        return blind
    return replace(
        blind,
        rubrics={**blind.rubrics, **reworded},
        change_reason=f"The primary reviewer's wording is clearer. {SIGNED}",
    )


def _declared(held: Assignment, form: Form, confirmed: Answers, primary: Answers, chance: random.Random) -> Answers:
    """The same, now and then with a wording of the secondary's own, and what the difference to the primary's is said to be."""
    policy = held.case.frozen.policy
    if not consolidation.may_declare(policy, Role(held.role), Phase(held.phase)):
        return confirmed
    agree = confirmed.verdict == primary.verdict == Verdict.APPROVE
    if agree and chance.random() < REWORDS:
        reworded = _with_wording(form, confirmed, chance)
        confirmed = replace(reworded, change_reason=confirmed.change_reason or f"More exact. {SIGNED}")
    declaration = Declaration.WORDING if chance.random() < SAME_MEANING else Declaration.MEANING
    return replace(confirmed, declaration=declaration) if consolidation.rewords(form, confirmed, primary) else confirmed


def _dissenting(form: Form, confirmed: Answers, primary: Answers, chance: random.Random) -> Answers:
    """The same with a coded reason, where it approves what the primary rejected."""
    if not form.dissents or (confirmed.verdict, primary.verdict) != (Verdict.APPROVE, Verdict.REJECT):
        return confirmed
    return replace(
        confirmed,
        dissent_code=chance.choice(form.dissents).code,
        reason=f"I do not see what speaks against it. {SIGNED}",
    )


def _fresh(form: Form, verdict: Verdict, chance: random.Random) -> Answers:
    """Complete answers to `form`; in favour wherever the form allows it."""
    questions = {question.key: _favourable(question, chance) for question in form.questions}
    rubrics = {rubric.key: RubricAnswer("adequate") for rubric in form.rubrics}
    if verdict is Verdict.APPROVE and not any(
        _blocks(question, questions[question.key]) for question in form.questions
    ):
        return Answers(questions, rubrics, verdict=Verdict.APPROVE)

    objection = chance.choice(OBJECTIONS)
    criticised = chance.choice(
        [*(question.key for question in form.questions), *(rubric.key for rubric in form.rubrics)]
    )
    if criticised in rubrics:
        objection = chance.choice(RUBRIC_OBJECTIONS)
        rubrics[criticised] = RubricAnswer("inadequate", note=f"{objection} {SIGNED}")
    for question in form.questions:
        against = [choice for choice in question.choices if choice.blocks]
        if question.key == criticised and against:
            questions[criticised] = Answer(chance.choice(against).value, f"{objection} {SIGNED}")
    return Answers(questions, rubrics, verdict=Verdict.REJECT, reason=f"{objection} {SIGNED}")


def _detailed(case: Case, answers: Answers, chance: random.Random) -> Answers:
    """The same answers with what else the form asks for, where it is not there yet: evidence, severities, a reason's code."""
    form = case.frozen.form
    kinds = _kinds_wanted(form, answers)
    reasons = _likely(form.reasons, chance)
    rubrics = {
        key: replace(finding, severity=finding.severity or _harm(case, key, chance))
        if form.severities and finding.value in ("adequate", "corrected")
        else finding
        for key, finding in answers.rubrics.items()
    }
    citations = answers.citations
    if not citations and _wants_evidence(form, answers):
        section, passage = f"Section {chance.randint(1, 12)}", f"What the trap claims is not so. {SIGNED}"
        read_on = case.opened_at.date().isoformat()
        asked = (Citation(kind, REFERENCES[kind], section, passage, read_on) for kind in kinds)
        citations = (*asked, *_fitting(case, read_on))
    coded = answers.verdict == Verdict.REJECT and not answers.reason_code and reasons
    code = chance.choice(reasons).code if coded else answers.reason_code
    return replace(answers, rubrics=rubrics, citations=citations, reason_code=code)


def _harm(case: Case, key: str, chance: random.Random) -> str:
    """The level that the trap of a rubric has in this sample; now and then somebody finds it one level milder or worse."""
    levels = [level.value for level in case.frozen.form.severities]
    rubric = next((each for each in case.frozen.form.rubrics if each.key == key), None)
    trap = " ".join(rubric.tags) if rubric is not None and rubric.tags else key
    at = random.Random(f"{case.lineage}/{trap}/harm").randrange(len(levels))
    at += chance.choice((-1, 1)) if chance.random() < OTHER_HARM else 0
    return levels[min(max(at, 0), len(levels) - 1)]


def _fitting(case: Case, read_on: str) -> Iterator[Citation]:
    """What shows a trap besides a guideline: a search without result, or words of the case itself."""
    spec = case.frozen
    kinds = {kind for term in spec.form.terms if term.evidence for kind in term.evidence}
    if "search" in kinds:
        yield Citation("search", "Simulated drug register", "", f"what the trap names {SIGNED}", read_on)
    text = next((passage.text for passage in passages(spec.blocks) if passage.text.strip()), "")
    if "case" in kinds and text:
        yield Citation("case", "Simulated place", "", text.strip()[:60].strip(), read_on)


def _likely(reasons: Sequence[Reason], chance: random.Random) -> list[Reason]:
    """Most of what is rejected can be mended."""
    mendable = chance.random() < MENDABLE
    return [reason for reason in reasons if reason.reducible is mendable] or list(reasons)


def _wants_evidence(form: Form, answers: Answers) -> bool:
    return any(
        choice.evidence
        for question in form.questions
        for choice in question.choices
        if question.key in answers.questions and choice.value == answers.questions[question.key].value
    )


def _kinds_wanted(form: Form, answers: Answers) -> list[str]:
    """One kind of source for each answer that names some; a guideline where none does."""
    given = answers.questions
    chosen = [
        c for each in form.questions if each.key in given for c in each.choices if c.value == given[each.key].value
    ]
    return list(dict.fromkeys(choice.evidence_kinds[0] for choice in chosen if choice.evidence_kinds)) or ["guideline"]


def _favourable(question: Question, chance: random.Random) -> Answer:
    def against(choice: Choice) -> bool:
        return choice.blocks or choice.inadequate

    choices = [choice for choice in question.choices if not against(choice)] or list(question.choices)
    if not choices:
        return Answer(note=f"{chance.choice(PRAISE)} {SIGNED}")
    # The first is the plainest 'yes'; now and then somebody chooses a milder one.
    chosen = choices[0] if chance.random() < 0.85 else chance.choice(choices)
    speaks = chance.random() < 0.25 or against(chosen)
    return Answer(
        chosen.value, f"{chance.choice(OBJECTIONS if against(chosen) else PRAISE)} {SIGNED}" if speaks else ""
    )


def _plainest(question: Question) -> str:
    return next((each.value for each in question.choices if not each.blocks and not each.inadequate), "")


def _blocks(question: Question, answer: Answer) -> bool:
    return any(choice.blocks for choice in question.choices if choice.value == answer.value)


def _reworded(form: Form, answers: Answers, chance: random.Random) -> Answers:
    """Now and then one rubric is put more exactly."""
    if not form.rubrics or answers.verdict == Verdict.REJECT or chance.random() >= CORRECTS:
        return answers
    return _with_wording(form, answers, chance)


def _with_wording(form: Form, answers: Answers, chance: random.Random) -> Answers:
    if not form.rubrics:
        return answers
    rubric = chance.choice(form.rubrics)
    chinese = CJK.search(rubric.criterion) is not None
    stem = rubric.criterion.strip().rstrip(".。")
    wording = stem + (chance.choice(ADDITIONS_ZH) + "。" if chinese else chance.choice(ADDITIONS) + ".")
    finding = RubricAnswer("corrected", wording=wording, note=f"More exact. {SIGNED}")
    return replace(answers, rubrics={**answers.rubrics, rubric.key: finding})
