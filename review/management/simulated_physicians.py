"""Simulated physicians, who work the queue through the same services as real ones, for demos.

They know no benchmark: they answer whatever questions a case has. Each of their notes says that it
is simulated.
"""

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from review import errors
from review.assignments import claims, first_look, services
from review.assignments import queries as assignments_queries
from review.assignments.case_queue import ANY, ChosenWork
from review.cases import queries
from review.common import benchmarks
from review.models import Assignment, Case, Review, User
from review.rewordings import queries as rewordings_queries
from review.rewordings import services as rewordings_services
from review.rules.blocks import passages
from review.rules.citations import is_by_trap
from review.rules.questions import Answer, Answers, Choice, Citation, Form, Question, RubricAnswer
from review.rules.state_machine import ADJUDICATORS, Declaration, Role, State, Verdict
from review.turns.turn import ReviewTurn

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
# Probabilities:
CORRECTION = 0.2  # a primary reviewer rewords a rubric
REDUCIBLE = 0.9  # the reason of a rejection is one that the next version can fix
OTHER_HARM = 0.2  # a reviewer sees another level of harm than the sample has
REWORDING = 0.1  # a secondary who agrees rewords a rubric as well
SAME_MEANING = 0.8  # a rewording is declared to keep the meaning; the primary accepts it
PERSUASION = 0.4  # a secondary adopts the primary's conclusion once it is revealed

REFERENCES = {"guideline": "Simulated guideline", "doi": "10.1000/1", "pmid": "1", "url": "https://example.org/"}

CJK = re.compile(r"[\u4e00-\u9fff]")


@dataclass(frozen=True, slots=True)
class Summary:
    """Result of a simulation: reviews submitted, their verdicts, and the cases by state."""

    seed: int
    physicians: int
    reviews: int
    verdicts: Mapping[str, int]
    corrected: int
    inadequate: int
    states: Mapping[str, int]


def work_queue(
    seed: int,
    limit: int | None,
    physicians: Sequence[User],
    *,
    chosen: ChosenWork = ANY,
    dissent: float = 0.15,
    reject: float = 0.1,
) -> Summary:
    """Let `physicians` claim and submit until `limit` reviews are in (None: until nothing is left).

    They work in parallel: in each round everybody either submits the case they hold or claims the
    next one, so that some hold a case when the limit is reached. With a limit, the last disputed
    case stays with its adjudicators as long as there is other work, so that it can be seen. The
    same database, physicians and seed give the same reviews.

    Args:
        chosen: what they claim.
        dissent: probability that a physician judges a case otherwise than it deserves, without
            knowing another opinion.
        reject: share of the cases that deserve to be rejected.

    Raises:
        NotSimulated: one of `physicians` is a person's account; no script may review in its name.
    """
    if not all(physician.simulated for physician in physicians):
        raise errors.NotSimulated
    disputed = Case.objects.filter(state=State.ADJUDICATION)
    order = random.Random(f"{seed}/order")
    verdicts: Counter[str] = Counter()
    corrected = inadequate = done = 0
    acted, saves_last_dispute = True, limit is not None
    while acted and (limit is None or done < limit):
        acted, with_rewordings = False, _physicians_with_rewordings()
        for physician in order.sample(physicians, len(physicians)):
            if limit is not None and done >= limit:
                break
            if physician.pk in with_rewordings:
                acted |= _answer_rewordings(physician, seed, keep_one=saves_last_dispute)
            held = assignments_queries.held_assignment(physician)
            if held is None:
                acted |= claims.claim_next(physician, chosen) is not None
                continue
            if saves_last_dispute and held.role in ADJUDICATORS and disputed.count() == 1:
                continue
            acted = True
            review = _review(physician, held, seed, dissent, reject)
            if review is not None:
                if review.answers["declaration"]:
                    with_rewordings = _physicians_with_rewordings()
                done += 1
                verdicts[review.verdict] += 1
                inadequate += review.inadequate
                corrected += any(finding["value"] == "corrected" for finding in review.answers["rubrics"].values())
        if saves_last_dispute and not acted:
            saves_last_dispute, acted = False, True
    return Summary(
        seed=seed,
        physicians=len(physicians),
        reviews=done,
        verdicts={verdict.value: verdicts[verdict] for verdict in Verdict},
        corrected=corrected,
        inadequate=inadequate,
        states=queries.funnel().counts,
    )


def _physicians_with_rewordings() -> set[int]:
    """The primary keys of the physicians who have a pending rewording to answer."""
    return set(rewordings_queries.pending().values_list("physician", flat=True))


def _answer_rewordings(physician: User, seed: int, *, keep_one: bool) -> bool:
    """Accept the physician's pending rewordings, or object to them. Returns whether there were any.

    `keep_one`: leave the last one of all pending, so that it can be seen.
    """
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
    """Submit the review that is due; None if somebody else was faster."""
    token, case = held.token, held.case
    if token is None:
        return None
    sample = f"{seed}/{case.lineage}/{case.version}"
    if random.Random(sample).random() < reject:
        deserves = Verdict.REJECT
    else:
        deserves = Verdict.APPROVE
    draw = f"{sample}/{held.role}/{held.phase}/{physician.username}"
    turn = ReviewTurn(physician, held)
    answers = _answers(turn, random.Random(draw), deserves, dissent, seed)
    answers = _with_details(case, answers, random.Random(f"{draw}/details"))
    try:
        if not turn.is_revealed:
            turn = first_look.reveal(turn, token, answers)
        return services.submit(turn, token, answers)
    except (errors.LeaseLost, errors.AlreadySubmitted, errors.CaseClosed):
        return None


def _answers(turn: ReviewTurn, chance: random.Random, deserves: Verdict, dissent: float, seed: int) -> Answers:
    held, case, form = turn.assignment, turn.case, turn.asks
    if case.kind == Case.Kind.VALIDATION:
        return _judgment(case, form, chance, dissent / 3)
    blind, primary = turn.submitted, turn.first_review
    if blind is not None and primary is not None:
        confirmed = _confirmation(form, blind, primary, chance)
        defaults = {question.key: _favourable_choice(question) for question in form.questions}
        answered = {key: confirmed.questions.get(key, Answer(value, SIGNED)) for key, value in defaults.items()}
        confirmed = replace(confirmed, questions=answered)
        declaration_chance = random.Random(f"{seed}/{case.lineage}/{case.version}/declaration")
        confirmed = _with_dissent_code(form, confirmed, primary, chance)
        return _declare(turn, confirmed, primary, declaration_chance)
    if blind is not None:  # the second vote
        if _blocked_at_first_look(form, blind):
            return blind
        # After the discussion most vote for what the case deserves; some keep their first vote.
        if chance.random() < 0.75:
            verdict = deserves
        else:
            verdict = Verdict(blind.verdict)
        return _new_answers(form, verdict, chance)
    # A case that reached the adjudicators is hard, so they disagree more often.
    doubt = dissent
    if held.role in ADJUDICATORS:
        doubt = min(2 * dissent, 0.5)
    if deserves is Verdict.REJECT:
        other = Verdict.APPROVE
    else:
        other = Verdict.REJECT
    answers = _new_answers(form, other if chance.random() < doubt else deserves, chance)
    approves = held.role == Role.PRIMARY and form.rubrics and answers.verdict != Verdict.REJECT
    if approves and chance.random() < CORRECTION:
        return _with_rewording(form, answers, chance)
    return answers


def _judgment(case: Case, form: Form, chance: random.Random, error: float) -> Answers:
    """Judge which criteria a model's answer meets, wrongly with probability `error`.

    Uses the benchmark's `simulate.is_met` if it has one. The first choice of a question means that
    the criterion is met, the second that it is not, the last that it cannot be decided.
    """
    is_met = getattr(benchmarks.module(case.benchmark, "simulate"), "is_met", None)
    *question_texts, answer = [passage.text for passage in passages(case.frozen.blocks)]
    questions = {}
    for question in form.questions:
        if is_met:
            met = is_met(question.asks, "\n".join(question_texts), answer)
        else:
            met = chance.random() < 0.5
        if met is not None and chance.random() < error:
            met = not met
        if met is None:
            index = -1
        else:
            index = int(not met)
        questions[question.key] = Answer(question.choices[index].value)
    return Answers(questions)


def _blocked_at_first_look(form: Form, own: Answers) -> bool:
    """Whether a committed first-look answer rules out that the physician approves later."""
    return any(_blocks(question, own.answer(question.key)) for question in form.first_look.questions)


def _confirmation(form: Form, blind: Answers, primary: Answers, chance: random.Random) -> Answers:
    """The secondary's last answers: the primary's, or the blind ones in the primary's words."""
    if blind.verdict != primary.verdict:
        if chance.random() >= PERSUASION or _blocked_at_first_look(form, blind):
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


def _declare(turn: ReviewTurn, confirmed: Answers, primary: Answers, chance: random.Random) -> Answers:
    """`confirmed`, sometimes with another wording, and with a declaration if the rubrics differ."""
    if not turn.declares:
        return confirmed
    agree = confirmed.verdict == primary.verdict == Verdict.APPROVE
    if agree and chance.random() < REWORDING:
        reworded = _with_rewording(turn.asks, confirmed, chance)
        confirmed = replace(reworded, change_reason=confirmed.change_reason or f"More exact. {SIGNED}")
    if chance.random() < SAME_MEANING:
        declaration = Declaration.WORDING
    else:
        declaration = Declaration.MEANING
    if turn.needs_declaration(confirmed):
        return replace(confirmed, declaration=declaration)
    return confirmed


def _with_dissent_code(form: Form, confirmed: Answers, primary: Answers, chance: random.Random) -> Answers:
    """`confirmed`, with a coded reason if it approves what the primary rejected."""
    if not form.dissents or (confirmed.verdict, primary.verdict) != (Verdict.APPROVE, Verdict.REJECT):
        return confirmed
    return replace(
        confirmed,
        dissent_code=chance.choice(form.dissents).code,
        reason=f"I do not see what speaks against it. {SIGNED}",
    )


def _new_answers(form: Form, verdict: Verdict, chance: random.Random) -> Answers:
    """Complete answers to `form` with this verdict, or a rejection if an answer blocks approval."""
    questions = {question.key: _favourable_answer(question, chance) for question in form.questions}
    rubrics = {rubric.key: RubricAnswer("adequate") for rubric in form.rubrics}
    blocked = any(_blocks(question, questions[question.key]) for question in form.questions)
    if verdict is Verdict.APPROVE and not blocked:
        return Answers(questions, rubrics, verdict=Verdict.APPROVE)

    objection = chance.choice(OBJECTIONS)
    criticised = chance.choice([*questions, *rubrics])
    if criticised in rubrics:
        objection = chance.choice(RUBRIC_OBJECTIONS)
        rubrics[criticised] = RubricAnswer("inadequate", note=f"{objection} {SIGNED}")
    against: list[str] = []
    for question in form.questions:
        if question.key == criticised:
            against += [choice.value for choice in question.choices if choice.blocks]
    if against:
        questions[criticised] = Answer(chance.choice(against), f"{objection} {SIGNED}")
    return Answers(questions, rubrics, verdict=Verdict.REJECT, reason=f"{objection} {SIGNED}")


def _with_details(case: Case, answers: Answers, chance: random.Random) -> Answers:
    """`answers`, with evidence, levels of harm and a reason code added where they are missing."""
    form = case.frozen.form
    chosen: list[Choice] = []
    for question in form.questions:
        if question.key in answers.questions:
            value = answers.questions[question.key].value
            chosen += [choice for choice in question.choices if choice.value == value]
    # One kind of source for each answer that names kinds; mostly reasons that can be fixed.
    kinds = dict.fromkeys(choice.evidence_kinds[0] for choice in chosen if choice.evidence_kinds) or ["guideline"]
    reducible = chance.random() < REDUCIBLE
    reasons = [reason for reason in form.reasons if reason.reducible is reducible] or form.reasons
    rubrics = dict(answers.rubrics)
    for key, finding in answers.rubrics.items():
        if form.severities and finding.value in ("adequate", "corrected"):
            rubrics[key] = replace(finding, severity=finding.severity or _harm_level(case, key, chance))
    citations = answers.citations
    if not citations and any(choice.evidence for choice in chosen):
        citations = tuple(
            _citations_by_trap(case, chance) if is_by_trap(form.terms) else _citations(case, kinds, chance)
        )
    needs_code = answers.verdict == Verdict.REJECT and not answers.reason_code and reasons
    if needs_code:
        code = chance.choice(reasons).code
    else:
        code = answers.reason_code
    return replace(answers, rubrics=rubrics, citations=citations, reason_code=code)


def _harm_level(case: Case, key: str, chance: random.Random) -> str:
    """The level of harm of the rubric's trap in this sample, or sometimes a neighbouring level."""
    levels = [level.value for level in case.frozen.form.severities]
    rubric = next((rubric for rubric in case.frozen.form.rubrics if rubric.key == key), None)
    trap = key
    if rubric is not None and rubric.tags:
        trap = " ".join(rubric.tags)
    index = random.Random(f"{case.lineage}/{trap}/harm").randrange(len(levels))
    index += chance.choice((-1, 1)) if chance.random() < OTHER_HARM else 0
    return levels[min(max(index, 0), len(levels) - 1)]


def _citations(case: Case, kinds: Iterable[str], chance: random.Random) -> Iterator[Citation]:
    """A source of each of these kinds; a search and words of the case, if they can show a trap."""
    section, passage = f"Section {chance.randint(1, 12)}", f"What the trap claims is not so. {SIGNED}"
    for kind in kinds:
        yield Citation(kind, REFERENCES[kind], section, passage, _read_on(case))
    further = set(chain.from_iterable(term.evidence for term in case.frozen.form.terms))
    for kind in ("search", "case"):
        if kind in further and (citation := _without_source(case, kind)):
            yield citation


def _citations_by_trap(case: Case, chance: random.Random) -> Iterator[Citation]:
    """One source for each trap, mostly of the first level that can show it."""
    for term in case.frozen.form.terms:
        if chance.random() < 0.5:
            level = term.levels[0]
        else:
            level = chance.choice(term.levels)
        if level in ("search", "case") and (own := _without_source(case, level)):
            yield replace(own, trap=term.code)
            continue
        if level == "textbook":
            citation = Citation("book", "Simulated textbook", f"Page {chance.randint(1, 900)}")
        elif level in ("review", "study", "label"):
            citation = Citation("url", REFERENCES["url"], level=level)
        else:
            citation = Citation("guideline", REFERENCES["guideline"], f"Section {chance.randint(1, 12)}")
        claim = f"What trap {term.code} claims is not so. {SIGNED}"
        yield replace(citation, passage=claim, read_on=_read_on(case), trap=term.code)


def _without_source(case: Case, kind: str) -> Citation | None:
    """A search without result, or words of the case; None if it has none."""
    if kind == "search":
        return Citation(kind, "Simulated drug register", "", f"what the trap names {SIGNED}", _read_on(case))
    text = next((passage.text for passage in passages(case.frozen.blocks) if passage.text.strip()), "")
    if text:
        return Citation(kind, "Simulated place", "", text.strip()[:60].strip(), _read_on(case))
    return None


def _read_on(case: Case) -> str:
    return case.opened_at.date().isoformat()


def _favourable_answer(question: Question, chance: random.Random) -> Answer:
    """An answer that speaks for approval, if the question has one."""

    choices = [choice for choice in question.choices if not _is_against(choice)] or list(question.choices)
    if not choices:
        return Answer(note=f"{chance.choice(PRAISE)} {SIGNED}")
    # The first choice is the clearest 'yes'; sometimes choose a milder one.
    if chance.random() < 0.85:
        chosen = choices[0]
    else:
        chosen = chance.choice(choices)
    has_note = chance.random() < 0.25 or _is_against(chosen)
    if not has_note:
        return Answer(chosen.value, "")
    remarks = PRAISE
    if _is_against(chosen):
        remarks = OBJECTIONS
    return Answer(chosen.value, f"{chance.choice(remarks)} {SIGNED}")


def _is_against(choice: Choice) -> bool:
    return choice.blocks or choice.inadequate


def _favourable_choice(question: Question) -> str:
    return next((choice.value for choice in question.choices if not _is_against(choice)), "")


def _blocks(question: Question, answer: Answer) -> bool:
    return any(choice.blocks for choice in question.choices if choice.value == answer.value)


def _with_rewording(form: Form, answers: Answers, chance: random.Random) -> Answers:
    """`answers`, with one rubric reworded more precisely."""
    if not form.rubrics:
        return answers
    rubric = chance.choice(form.rubrics)
    chinese = CJK.search(rubric.criterion) is not None
    stem = rubric.criterion.strip().rstrip(".。")
    wording = stem + (chance.choice(ADDITIONS_ZH) + "。" if chinese else chance.choice(ADDITIONS) + ".")
    finding = RubricAnswer("corrected", wording=wording, note=f"More exact. {SIGNED}")
    return replace(answers, rubrics={**answers.rubrics, rubric.key: finding})
