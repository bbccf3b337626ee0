"""Forms for the expected answers of calibration items and for practice cases."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext

from review.labels import FINDINGS, VERDICTS, translate
from review.rules.questions import Answer, Answers, Form, Question, RubricAnswer
from review.rules.state_machine import Verdict


class ExpectedForm(forms.Form):
    """The expected answers of a calibration item. Blank ones are not scored."""

    def __init__(self, data: QueryDict | None = None, *, form: Form, expected: Answers) -> None:
        super().__init__(data)
        verdicts = [(value, VERDICTS[value]) for value in Verdict]
        self._add("verdict", gettext("Verdict"), verdicts, expected.verdict)
        self._several: dict[str, Question] = {}
        for question in form.questions:
            if question.kind == "text":
                continue
            name, given = f"question.{question.key}", expected.questions.get(question.key, Answer())
            if question.kind == "choices":
                self._several[name] = question
                about = gettext("Scored as a whole: exactly these choices. None chosen: not scored.")
                self.fields[name] = _boxes(question, about, given.value)
                continue
            choices = [(choice.value, translate(choice.label)) for choice in question.choices]
            self._add(name, translate(question.label), choices, given.value)
        for rubric in form.rubrics:
            finding = expected.rubrics.get(rubric.key, RubricAnswer())
            self._add(f"rubric.{rubric.key}", rubric.criterion, list(FINDINGS.items()), finding.value)
            if form.severities:
                levels = [(level.value, translate(level.label)) for level in form.severities]
                self._add(f"severity.{rubric.key}", gettext("Harm"), levels, finding.severity)

    def _add(self, name: str, label: str, choices: list[Any], value: str) -> None:
        self.fields[name] = forms.ChoiceField(
            label=label, choices=[("", gettext("not scored")), *choices], required=False, initial=value
        )

    def answers(self) -> Answers:
        """The chosen values, as answers."""
        chosen = self.cleaned_data

        def value(name: str) -> str:
            several = self._several.get(name)
            return several.value_of(chosen[name]) if several else chosen[name]

        def under(prefix: str) -> dict[str, str]:
            return {name.removeprefix(prefix): value(name) for name in self.fields if name.startswith(prefix)}

        harms = under("severity.")
        return Answers(
            questions={key: Answer(value) for key, value in under("question.").items()},
            rubrics={key: RubricAnswer(value, severity=harms.get(key, "")) for key, value in under("rubric.").items()},
            verdict=chosen["verdict"],
        )


def _boxes(question: Question, about: str, value: str = "") -> forms.MultipleChoiceField:
    """The checkboxes of a question with several choices."""
    return forms.MultipleChoiceField(
        label=translate(question.label),
        choices=[(choice.value, translate(choice.label)) for choice in question.choices],
        widget=forms.CheckboxSelectMultiple,
        required=False,
        initial=[choice.value for choice in question.chosen(value)],
        help_text=about,
    )


class PracticeForm(ExpectedForm):
    """The questions of a practice case, all required.

    `hidden`: keys of questions that were answered in the previous step.
    """

    def __init__(self, data: QueryDict | None = None, *, form: Form, hidden: Collection[str] = ()) -> None:
        self._hidden = {f"question.{key}" for key in hidden}
        super().__init__(data, form=replace(form, severities=()), expected=Answers())
        self.order_fields([name for name in self.fields if name != "verdict"])
        for question in form.questions:
            if question.kind == "text":
                continue
            field = self.fields[f"question.{question.key}"]
            field.help_text = translate(question.help)
            if question.key in hidden and question.kind == "choices":
                field.widget = forms.MultipleHiddenInput()
            if question.asks:
                field.label = f"{field.label}: {translate(question.asks)}"

    def _add(self, name: str, label: str, choices: list[Any], value: str) -> None:
        widget = forms.HiddenInput() if name in self._hidden else forms.RadioSelect()
        self.fields[name] = forms.ChoiceField(label=label, choices=choices, widget=widget)


class FirstPracticeForm(forms.Form):
    """The first-look questions of a practice case, asked before its traps are shown."""

    def __init__(self, data: QueryDict | None = None, *, form: Form) -> None:
        super().__init__(data)
        for question in form.first_look.questions:
            if question.kind == "text":
                continue
            if question.kind == "choices":
                self.fields[f"question.{question.key}"] = _boxes(question, translate(question.help))
                continue
            self.fields[f"question.{question.key}"] = forms.ChoiceField(
                label=translate(question.label),
                choices=[(choice.value, translate(choice.label)) for choice in question.choices],
                widget=forms.RadioSelect(),
                help_text=translate(question.help),
            )
