"""The kinds of records that the formats of sources give, in words."""

from django.utils.translation import gettext_lazy as _

KIND_LABELS = {
    "article": _("Article"),
    "case": _("Case"),
    "conversation": _("Conversation"),
    "dialogue": _("Conversation"),
    "mcq": _("Question with options"),
    "mistake-scenario": _("Scenario with a mistake"),
    "nli-contradiction": _("Premise and a contradicting statement"),
    "nli-entailment": _("Premise and an entailed statement"),
    "nli-neutral": _("Premise and a neutral statement"),
    "note": _("Clinical note"),
    "qa": _("Question with passages"),
    "qa-pair": _("Question with two answers"),
    "report": _("Report"),
    "scenario": _("Scenario"),
    "statement": _("Statement"),
    "term": _("Term"),
    "vqa": _("Question about an image"),
    "vqa-trace": _("Question about an image, with a trace"),
}


def kind_label(kind: str) -> str:
    """The label of a kind of records; the kind itself if it has none."""
    return str(KIND_LABELS.get(kind, kind))
