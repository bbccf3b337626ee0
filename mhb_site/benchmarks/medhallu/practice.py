"""The practice case of the tour: hallucinated answers, an example of each category, a sample."""

from django.utils.translation import get_language, gettext
from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import NewSample
from mhb_site.benchmarks.medhallu import review
from mhb_site.benchmarks.medhallu.taxonomy import TERMS
from review.calibration.practice import Kind, Practice
from review.rules.questions import Answer, Answers

EXAMPLES = {
    "MQ": _("Asked whether drug A lowers mortality, the answer reports that it shortens the stay in hospital."),
    "II": _("“Drug A lowered mortality.” The passage says: only in patients under 60; it rose in older ones."),
    "MP": _("“Drug A lowered blood pressure by blocking calcium channels.” The passage names another mechanism."),
    "MF": _("“In 4,200 patients the risk fell by 38 %.” The study had 310 patients and reports no such number."),
}


def practice() -> Practice:
    """The practice page, in the reader's language, with its case."""
    return Practice(
        about=(
            gettext(
                "A hallucinated answer is wrong on purpose and sounds right. It is paired with the true answer to a "
                "research question, and models must tell which of the two is hallucinated."
            ),
            gettext(
                "You make sure that the test is fair: the answer is definitely wrong, a quick reader could believe it, and it "
                "is wrong in the way that its category says."
            ),
        ),
        kinds=tuple(
            Kind(term.code, gettext(term.label), "", gettext(term.definition), gettext(EXAMPLES[term.code]))
            for term in TERMS
        ),
        spec=review.case(_sample(), "practice", 1),
        expected=Answers(
            questions={"wrong": Answer("yes"), "category": Answer("does-not-fit")},
            verdict="reject",
        ),
        why={
            "question.wrong": gettext(
                "The passage says that the two groups did not differ at 90 days. In a real case you quote this sentence."
            ),
            "question.plausible": gettext("2 or 3: tone and length match the true answer, and nothing gives it away."),
            "question.category": gettext(
                "The answer states the opposite of the finding, which is a misinterpretation of the question. It names no "
                "wrong mechanism, so the category does not fit."
            ),
            "verdict": gettext(
                "A category that does not fit rules out approval. The reason: The category does not fit."
            ),
        },
    )


def _sample() -> NewSample:
    return NewSample(
        task=_("detection"),
        title=gettext("Does early walking lower mortality after hip surgery?"),
        language=get_language() or "en",
        content={
            "question": gettext("Does early walking lower mortality after hip surgery?"),
            "knowledge": [
                gettext(
                    "An invented study randomised 310 patients to walking on the first or the third day. At 90 days, "
                    "mortality did not differ between the groups."
                )
            ],
            "truth": gettext("No. Mortality at 90 days did not differ between early and late walking."),
            "hallucinated": gettext("Yes. Mortality at 90 days was lower with early than with late walking."),
            "category": "MP",
            "justification": gettext("The answer claims an effect of early walking."),
        },
        made={"reviewers": "one"},
    )
