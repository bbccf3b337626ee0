"""A physician's turn at a case: what they may see now, what they are asked, what a submit does.

This is the only place that decides what is hidden from whom; pages, API and exports ask it.

    moment        shows                         reads, besides their own reviews
    first look    the text without its traps    nothing
    blind         everything                    nothing
    confirm       everything                    the first reviewer's
    vote          everything                    both reviewers' (nothing if adjudicators vote blind)
    second vote   everything                    both reviewers' and both first votes; under
                                                `signed_wording` also the other's second vote
    closed        everything                    everything, if they submitted a review that counts

During a first look, physicians do not read their own earlier reviews either. Retracted reviews are
shown to nobody.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from django.db.models import F, FilteredRelation, Q, QuerySet, Value
from django.utils.translation import get_language

from review import errors
from review.models import Assignment, Case, Draft, FirstLook, Review, RewordingOutcome, User
from review.rules import consolidation
from review.rules.case_spec import CaseSpec, answers_from_json
from review.rules.permissions import Can, allowed, may_read
from review.rules.questions import Answers, Form, Problem, is_changed, problems, without_unasked
from review.rules.state_machine import ADJUDICATORS, Consent, Phase, Role, State, Verdict
from review.turns import common_ground
from review.turns.checks import highlight_problems, located_citations, with_allowed_highlights

Hold = Assignment.Hold
REVIEWERS = (Role.PRIMARY, Role.SECONDARY)


class Moment(StrEnum):
    """What a physician does at a case now, or did last."""

    FIRST_LOOK = "first-look"  # judges the text before the traps are revealed
    BLIND = "blind"  # answers without anybody else's answers
    CONFIRM = "confirm"  # compares the blind answers with the first reviewer's
    VOTE = "vote"  # decides as an adjudicator
    SECOND_VOTE = "second-vote"  # decides again, as the votes differ
    CLOSED = "closed"  # the case has ended


@dataclass
class ReviewTurn:
    """The turn of `physician` at `assignment`, which holds its case.

    Nothing is loaded before it is needed, and everything at most once: with `turn_of`, one
    statement for the assignment, its case, the first look and the draft, and one for the reviews.
    A turn stays as it was: a first look or a submit begins another.
    """

    physician: User
    assignment: Assignment
    following: "ReviewTurn | None" = None
    """The physician's next turn at the assignment, set by a submit that leaves it with them."""

    @property
    def case(self) -> Case:
        return self.assignment.case

    @property
    def role(self) -> Role:
        return Role(self.assignment.role)

    @property
    def phase(self) -> Phase:
        return Phase(self.assignment.phase)

    @property
    def is_own(self) -> bool:
        """Whether the assignment is the physician's, now or until it was submitted."""
        return self.assignment.physician_id == self.physician.pk

    @property
    def is_due(self) -> bool:
        """Whether the physician holds the case: a review is expected of them."""
        return self.is_own and self.assignment.hold == Hold.HELD

    @property
    def is_vote(self) -> bool:
        """Whether the physician decides between reviewers who differ."""
        return self.role in ADJUDICATORS

    @cached_property
    def spec(self) -> CaseSpec:
        """The case with the questions of this stage, as it is stored."""
        spec = self.case.frozen
        return replace(spec, form=spec.form.at(self.role.stage))

    # ------------------------------------------------------------------------------ what is shown

    @cached_property
    def moment(self) -> Moment:
        if State(self.case.state).final:
            return Moment.CLOSED
        if not self.is_revealed:
            return Moment.FIRST_LOOK
        if self.is_vote:
            if self.phase is Phase.DISCUSS:
                return Moment.SECOND_VOTE
            return Moment.VOTE
        if self.phase is Phase.CONFIRM:
            return Moment.CONFIRM
        return Moment.BLIND

    @cached_property
    def is_revealed(self) -> bool:
        """Whether the physician may see what the case hides until a first look is committed."""
        if not requires_first_look(self.case) or may_read(self.physician, Can.OVERSEE):
            return True
        return self.first_look is not None

    @property
    def _is_loaded(self) -> bool:
        """Whether the assignment came with what the physician has at it (`turn_rows`)."""
        return getattr(self.assignment, "loaded_for", None) == self.physician.pk

    @cached_property
    def first_look(self) -> FirstLook | None:
        """The physician's own first look, or None if they have not committed one."""
        if self._is_loaded:
            return getattr(self.assignment, "own_look", None)
        return FirstLook.objects.filter(assignment=self.assignment, physician=self.physician).first()

    @cached_property
    def shows(self) -> CaseSpec:
        """The blocks and questions that the physician may see now, in their language.

        Before the first look is committed: the text as a model under test would see it and the
        questions of the first look; no trap, no rubric, no other question, and no reason why an
        earlier version was rejected. Whether the assignment is the physician's, the caller knows.
        """
        spec = self.spec.in_language(get_language() or "")
        if self.is_revealed:
            return spec
        return replace(spec, blocks=spec.first_look, form=spec.form.first_look, asked_for=())

    @cached_property
    def counted(self) -> list[Review]:
        """All reviews of the case that count, in order: not what the physician may read."""
        return list(counted_reviews().filter(case=self.assignment.case_id).order_by("id"))

    @cached_property
    def reviews(self) -> list[Review]:
        """The reviews that the physician may read now, in order."""
        if not self.is_own or self.moment is Moment.FIRST_LOOK:
            return []  # reviews name the traps
        if self.moment is Moment.BLIND and self.is_due:
            return []  # they have no review here that counts yet
        return [review for review in self.counted if self._may_read(review)]

    def _may_read(self, review: Review) -> bool:
        moment, policy = self.moment, self.case.frozen.policy
        if moment is Moment.CLOSED:
            # Without a review of their own (the case was withdrawn, for example) they read nothing.
            return any(one.physician_id == self.physician.pk for one in self.counted)
        if review.physician_id == self.physician.pk:
            return True
        if moment is Moment.CONFIRM:
            return review.role == Role.PRIMARY
        if moment is Moment.VOTE:
            return review.role in REVIEWERS and not policy.adjudicators_blind
        if moment is Moment.SECOND_VOTE:
            # A second vote is a proposal that the other may sign, if approvals must be signed.
            return review.phase != Phase.DISCUSS or policy.signed_wording
        return False

    @cached_property
    def objection(self) -> RewordingOutcome | None:
        """For adjudicators: the first reviewer's objection to the second's wording, if readable."""
        if self.is_vote:
            return objection_among(self.reviews)
        return None

    @property
    def is_dispute_about_rubrics(self) -> bool:
        """Whether an adjudicator sees that both reviewers approve, with different rubrics."""
        verdicts = {review.role: review.verdict for review in self.reviews if review.role in REVIEWERS}
        return self.is_vote and list(verdicts.values()) == [Verdict.APPROVE] * len(REVIEWERS)

    # ------------------------------------------------------------------------------- what is asked

    @property
    def asks(self) -> Form:
        """The questions of this stage, including those that are only asked after the first look."""
        return self.spec.form

    @cached_property
    def draft(self) -> Draft | None:
        """The physician's draft for the current phase."""
        if self._is_loaded:
            return getattr(self.assignment, "own_draft", None)
        return self.assignment.drafts.filter(physician=self.physician, phase=self.assignment.phase).first()

    @property
    def answers(self) -> Answers:
        """The answers to start from: the draft, else those submitted last."""
        if self.draft is not None:
            return answers_from_json(self.draft.answers)
        return self.submitted or Answers()

    @cached_property
    def submitted(self) -> Answers | None:
        """What the physician submitted last, where a confirmation and a second vote start."""
        own = [review for review in self.reviews if review.physician_id == self.physician.pk]
        if own:
            return answers_from_json(own[-1].answers)
        return None

    @cached_property
    def first_review(self) -> Answers | None:
        """The first reviewer's answers, with which a secondary compares their own."""
        if self.moment is Moment.CONFIRM:
            for review in reversed(self.reviews):
                if review.role == Role.PRIMARY:
                    return answers_from_json(review.answers)
        return None

    @property
    def rejected_before(self) -> bool:
        """Whether the physician sees that the first reviewer rejected: to approve is to dissent."""
        return self.first_review is not None and self.first_review.verdict == Verdict.REJECT

    @cached_property
    def declares(self) -> bool:
        """Whether changed rubrics have to be declared a change of wording or of meaning.

        They have to be in the secondary's last phase.
        """
        policy = self.case.frozen.policy
        last_phase = Phase.COMMIT
        if policy.secondary_confirms:
            last_phase = Phase.CONFIRM
        is_last = self.role is Role.SECONDARY and self.phase is last_phase
        return policy.settle_wording and is_last and self.is_revealed

    def needs_declaration(self, answers: Answers) -> bool | None:
        """Whether `answers` approve other rubrics than the first reviewer, which must be declared.

        Where that reviewer's answers are hidden: other rubrics than were generated. None where
        nothing has to be declared.
        """
        if not self.declares:
            return None
        return consolidation.changes_rubrics(self.case.frozen.form, answers, self.first_review)

    def needs_reason(self, answers: Answers) -> bool | None:
        """Whether `answers` differ from those committed blind; None where there are none yet."""
        if self.moment is not Moment.CONFIRM or self.submitted is None:
            return None
        return is_changed(self.asks, self.submitted, self.with_first_look(answers))

    @cached_property
    def common_answers(self) -> Answers | None:
        """The answers on which both reviewers agree, filled in for an adjudicator's first vote."""
        last = {}
        if self.moment is Moment.VOTE:
            last = {review.role: review for review in self.reviews}
        if len(last) < 2:
            return None
        return common_ground.common_answers(self.shows.form, [answers_from_json(one.answers) for one in last.values()])

    # ------------------------------------------------------------------------- what a submit does

    def with_first_look(self, answers: Answers) -> Answers:
        """`answers`, with those of the first look as they were committed. Raises NotRevealed."""
        if not requires_first_look(self.case):
            return answers
        if self.first_look is None:
            raise errors.NotRevealed
        return consolidation.with_first_look(self.asks, answers, answers_from_json(self.first_look.answers))

    def answerable(self, answers: Answers) -> Answers:
        """`answers` without those to questions and rubrics that a first look hides.

        They are left out, not refused: a refusal would tell which of them exist.
        """
        if self.is_revealed:
            return answers
        asked = {question.key for question in self.shows.form.questions}
        questions = {key: answer for key, answer in answers.questions.items() if key in asked}
        return replace(answers, questions=questions, rubrics={})

    def sign(self, review_id: int) -> Answers:
        """The answers that sign a readable review word for word. Raises NotAProposal."""
        readable = {review.pk: review for review in self.reviews}
        own = self.submitted
        if self.phase is not Phase.DISCUSS or review_id not in readable or own is None:
            raise errors.NotAProposal
        proposal = answers_from_json(readable[review_id].answers)
        return consolidation.signed_answers(self.case.frozen.form, proposal, own)

    def unconfirmed(self, answers: Answers) -> list[Problem]:
        """The problems of a vote that does not confirm the answers that were filled in for it."""
        if not self.is_due or self.common_answers is None:
            return []
        form = self.shows.form
        if not common_ground.agreed_fields(form, answers, self.common_answers):
            return []
        return [Problem("agreed", "unconfirmed"), *problems(form, self.with_first_look(answers))]

    def accept(self, answers: Answers) -> Answers:
        """What a submit stores, with the first look as it was committed, whatever `answers` says.

        Raises:
            NotRevealed: the first look is due.
            Incomplete: every problem, by field.
        """
        spec, form = self.spec, self.asks
        answers = self.with_first_look(with_allowed_highlights(answers, revealed=True))
        answers, misplaced = located_citations(spec, answers)
        if not form.asks_verdict:
            answers = replace(answers, verdict=Verdict.APPROVE)
        committed = None
        if self.phase is Phase.CONFIRM:
            committed = self.submitted
        faults = problems(form, answers, committed=committed, rejected_before=self.rejected_before)
        if committed is not None and not is_changed(form, committed, answers):
            # There is no reason for a change; the text may say why the case is approved.
            answers = replace(answers, reason=answers.reason or answers.change_reason, change_reason="")
        if self.needs_declaration(answers):
            faults += consolidation.declaration_problems(answers)
        if faults := faults + misplaced + highlight_problems(spec, answers):
            raise errors.Incomplete(faults)
        answers = without_unasked(form, answers)
        if not self.needs_declaration(answers):
            return replace(answers, declaration="")
        return answers


# --------------------------------------------------------------------------------------- turns


def turn_rows(physician: User) -> QuerySet[Assignment]:
    """Assignments with their case and with what the physician has at each: first look and draft."""
    look = Q(first_looks__physician=physician)
    draft = Q(drafts__physician=physician, drafts__phase=F("phase"))
    rows = Assignment.objects.annotate(
        own_look=FilteredRelation("first_looks", condition=look),
        own_draft=FilteredRelation("drafts", condition=draft),
        loaded_for=Value(physician.pk),
    )
    return rows.select_related("case", "own_look", "own_draft")  # type: ignore[misc]


def turn_of(physician: User, assignment_id: int, *, own: bool = True) -> ReviewTurn:
    """The physician's turn at an assignment. Raises NotAssigned.

    Args:
        own: only at one of their own. Else at any, to read a posted form: the services decide who
            may act on it, and nothing of it may be shown.
    """
    try:
        assignment = turn_rows(physician).get(pk=assignment_id)
    except Assignment.DoesNotExist:
        raise errors.NotAssigned from None
    if own and assignment.physician_id != physician.pk:
        raise errors.NotAssigned
    if assignment.physician_id == physician.pk:
        assignment.physician = physician
    return ReviewTurn(physician, assignment)


def turn_in(physician: User, case: Case) -> ReviewTurn | None:
    """The physician's turn in a case; None if they have no role in it."""
    turns = turns_in(physician, {case.pk: case})
    if turns:
        return turns[0]
    return None


def turns_in(physician: User, cases: Mapping[int, Case]) -> list[ReviewTurn]:
    """The physician's turns in cases by their keys, with the reviews: two statements for all.

    None of somebody who is a physician no longer.
    """
    if not allowed(physician, Can.REVIEW):
        return []
    look = FilteredRelation("first_looks", condition=Q(first_looks__physician=physician))
    rows = Assignment.objects.annotate(own_look=look).select_related("own_look")  # type: ignore[misc]
    turns = []
    for assignment in rows.filter(case__in=cases, physician=physician):
        assignment.case = cases[assignment.case_id]
        turn = ReviewTurn(physician, assignment)
        turn.first_look = getattr(assignment, "own_look", None)
        turns.append(turn)
    reviews: dict[int, list[Review]] = defaultdict(list)
    for review in counted_reviews().filter(case__in=[turn.case.pk for turn in turns]).order_by("id"):
        reviews[review.case_id].append(review)
    for turn in turns:
        turn.counted = reviews[turn.case.pk]
    return turns


# ------------------------------------------------------------------------------------- reading


def requires_first_look(case: Case) -> bool:
    """Whether physicians judge the text of this case before its traps are revealed to them."""
    # Lists call this for every row; building `frozen` for each would be slow.
    return bool(case.spec["policy"].get("reveal_first_look"))


def counted_reviews() -> QuerySet[Review]:
    """The reviews that count: all that were not retracted."""
    return Review.objects.filter(retraction__isnull=True)


def readable_reviews(user: User, case: Case) -> Sequence[Review]:
    """The reviews of `case` that `user` may read now, in order, with their authors.

    Users who oversee cases read everything that was submitted; physicians as their turn says.
    """
    if may_read(user, Can.OVERSEE):
        return list(counted_reviews().filter(case=case).select_related("physician", "guideline").order_by("id"))
    turn = turn_in(user, case)
    if turn:
        return turn.reviews
    return []


def objection_among(reviews: Collection[Review]) -> RewordingOutcome | None:
    """The primary's objection to the secondary's wording, if both reviews are among `reviews`."""
    secondary = [review for review in reviews if review.role == Role.SECONDARY]
    if not secondary or all(review.role != Role.PRIMARY for review in reviews):
        return None
    return RewordingOutcome.objects.filter(rewording__review=secondary[-1], consent=Consent.OBJECTED).first()
