"""The form for the expected answers of calibration items."""

from collections.abc import Collection
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext

from review.labels import FINDINGS, VERDICTS, translate
from review.rules.questions import Answer, Answers, Form, Question, RubricAnswer


class SeveralChoicesField(forms.MultipleChoiceField):
    """The checkboxes of a question with several choices; its value is one text, as in `Answer`."""

    widget = forms.CheckboxSelectMultiple

    def __init__(self, question: Question, **options: Any) -> None:
        super().__init__(choices=_choices(question), required=False, **options)
        self.question = question

    def clean(self, value: Any) -> str:
        return self.question.value_of(super().clean(value))

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, str):
            return [choice.value for choice in self.question.chosen(value)]
        return value


def _choices(question: Question) -> list[tuple[str, str]]:
    return [(choice.value, translate(choice.label)) for choice in question.choices]


class ExpectedForm(forms.Form):
    """The expected answers of a calibration item. Blank ones are not scored.

    Fields named `question.<key>`, `rubric.<key>`, `severity.<key>` and `verdict`.
    """

    def __init__(self, data: QueryDict | None = None, *, form: Form, expected: Answers) -> None:
        super().__init__(data)

        def optional(label: str, choices: Collection[Any], value: str) -> forms.ChoiceField:
            listed = [("", gettext("not scored")), *choices]
            return forms.ChoiceField(label=label, choices=listed, required=False, initial=value)

        self.fields["verdict"] = optional(gettext("Verdict"), VERDICTS.items(), expected.verdict)
        about = gettext("Scored as a whole: exactly these choices. None chosen: not scored.")
        for question in form.questions:
            name, label = f"question.{question.key}", translate(question.label)
            value = expected.answer(question.key).value
            if question.kind == "choices":
                self.fields[name] = SeveralChoicesField(question, label=label, initial=value, help_text=about)
            elif question.kind == "choice":
                self.fields[name] = optional(label, _choices(question), value)
        levels = [(level.value, translate(level.label)) for level in form.severities]
        for rubric in form.rubrics:
            finding = expected.finding(rubric.key)
            self.fields[f"rubric.{rubric.key}"] = optional(rubric.criterion, FINDINGS.items(), finding.value)
            if levels:
                self.fields[f"severity.{rubric.key}"] = optional(gettext("Harm"), levels, finding.severity)

    def answers(self) -> Answers:
        """The chosen values, as answers."""

        def under(prefix: str) -> dict[str, str]:
            values = self.cleaned_data.items()
            return {name.removeprefix(prefix): value for name, value in values if name.startswith(prefix)}

        harms = under("severity.")
        rubrics = {}
        for key, value in under("rubric.").items():
            rubrics[key] = RubricAnswer(value, severity=harms.get(key, ""))
        questions = {key: Answer(value) for key, value in under("question.").items()}
        return Answers(questions=questions, rubrics=rubrics, verdict=self.cleaned_data["verdict"])
