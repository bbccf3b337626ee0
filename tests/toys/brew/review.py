"""One question; samples that are not drawn for review get no primary reviewer."""

from generation.recipes.recipe import NewSample
from review.rules.blocks import Text
from review.rules.case_spec import CaseSpec
from review.rules.questions import Choice, Form, Question, RubricText
from review.rules.state_machine import Policy

FORM = Form(
    questions=(Question("true", "True", "Is it true?", (Choice("yes", "Yes"), Choice("no", "No", blocks=True))),),
    rubrics=(RubricText("R1", "Says what it tastes of.", ("S",)),),
)


def case(sample: NewSample, lineage: str, version: int) -> CaseSpec:
    return CaseSpec(
        benchmark="brew",
        lineage=lineage,
        version=version,
        title=sample.title,
        blocks=(Text("Note", sample.content["text"]),),
        form=FORM,
        policy=Policy(primary=sample.provenance["review"] == "sampled"),
        language="en",
        task=sample.task,
    )
