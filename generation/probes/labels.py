"""Probes, and reasons why there is no number, in words."""

from collections.abc import Mapping

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

from generation.probes.reasons import NoNumber

PROBES: Mapping[str, str] = {
    "constant": _("Always “wrong”"),
    "position": _("Position of the option"),
    "longest": _("The longest option"),
    "length": _("Length"),
    "overlap_source": _("Words shared with the source"),
    "overlap_visual": _("Words shared with the visual recognition"),
    "overlap_knowledge": _("Words shared with the recalled knowledge"),
    "overlap_reasoning": _("Words shared with the reasoning"),
    "overlap_question": _("Words shared with the question"),
    "surface": _("Six surface features"),
    "few_words": _("The 20 most telling words"),
    "words": _("Words of the answer"),
    "question": _("The question alone"),
}
SENTENCES = {
    "too-few": _("Questions with answers that can be counted: %(n)s. Needed: at least %(least)s."),
    "one-class": _("All answers have the same label, so there is nothing to tell apart."),
    "few-clusters": _(
        "Its records share sources or are near-duplicates. Independent groups: %(n)s. Needed: at least %(least)s."
    ),
    "few-of-a-label": _("Independent groups with the rarer label: %(n)s. Needed: at least %(least)s."),
    "one-value": _("All have the same value, so there is nothing to compare."),
    "small-group": _("%(n)s are too few; at least %(least)s are needed."),
    "needs-options": _("Only questions with options have this."),
    "needs-answers": _("One of the options is always right."),
    "needs-question": _("No question is given with the answers."),
    "needs-source": _("No source is given with the answers."),
    "needs-visual": _("No visual recognition is given with the question."),
    "needs-knowledge": _("No recalled knowledge is given with the question."),
    "needs-reasoning": _("No reasoning is given with the question."),
    "needs-unpaired": _("Each question has right and wrong answers, so the question alone cannot tell them apart."),
    "not-probed": _("Not probed yet."),
    "not-labelled": _("Nothing in it says which answers are right and which are wrong."),
}
LEFT_OUT: Mapping[str, str] = {
    "empty-answer": _("with an answer that has no words"),
    "other-kind": _("of another kind: with options, or without"),
    "not-one-right": _("without exactly one right option"),
}


def probe_label(name: str) -> str:
    """What a probe is called; its name, if another version of MHB stored it."""
    return gettext(PROBES.get(name, name))


def sentence(reason: NoNumber) -> str:
    """Why there is no number."""
    return gettext(SENTENCES.get(reason.code, reason.code)) % reason.values
