"""The practice case of the tour: statements and labels, an example of each task, a small case."""

from django.utils.translation import get_language, gettext
from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import NewSample
from generation.recipes.review_sampling import SAMPLED_FOR_REVIEW
from mhb_site.benchmarks.medhal import review
from review.calibration.practice import Kind, Practice
from review.rules.questions import Answer, Answers

KINDS = (
    (
        "QA",
        _("Question answering"),
        _(
            "An exam question with one of its options, as a statement. The right option makes it factual, a wrong one does not."
        ),
        _("“Vitamin C deficiency causes beriberi.” Non-factual: the right option was vitamin B1."),
    ),
    (
        "IE",
        _("Information extraction"),
        _(
            "What a clinical note says about a patient. In a non-factual statement, the value is that of another patient."
        ),
        _("“The patient is 16 years old.” Non-factual: the note says 10."),
    ),
    (
        "NLI",
        _("Natural language inference"),
        _("A sentence that a line of a note entails, or contradicts."),
        _("“The patient has a normal creatinine.” Non-factual: the note says 1.7, baseline 0.5."),
    ),
    (
        "SUM",
        _("Summarization"),
        _("An abstract of an article. In a non-factual one, a single sentence was altered."),
        _("“… high-frequency receptors …” became “… low-frequency receptors …”."),
    ),
)


def practice() -> Practice:
    """The practice page, in the reader's language, with its case."""
    return Practice(
        about=(
            gettext(
                "A statement is labelled factual or non-factual, and models are asked which it is. The labels were made by "
                "code and by models, so a sample of them is checked by physicians."
            ),
            gettext("You decide whether the label is right. If it is wrong, you say why."),
        ),
        kinds=tuple(
            Kind(code, gettext(name), "", gettext(definition), gettext(example))
            for code, name, definition, example in KINDS
        ),
        spec=review.case(_sample(), "practice", 1),
        expected=Answers(questions={"label": Answer("no")}, verdict="reject"),
        why={
            "question.label": gettext(
                "The context reports 200 patients of one trial. The statement says all patients, so it is not factual."
            ),
            "question.statement": gettext("Yes: it says one thing, and the context is enough to judge it."),
            "verdict": gettext(
                "A wrong label rules out approval. The reason: Called factual, but it claims more than the context does."
            ),
        },
    )


def _sample() -> NewSample:
    statement = gettext("The invented drug reduces readmissions by a third in all patients.")
    return NewSample(
        task="summarization",
        title=statement,
        language=get_language() or "en",
        content={
            "statement": statement,
            "context": gettext(
                "An invented trial randomised 200 patients to an invented drug or placebo. Readmissions were a third "
                "lower with the drug."
            ),
            "label": "factual",
            "explanation": "",
        },
        made={"review": SAMPLED_FOR_REVIEW, "reviewers": "two"},
    )
