"""The models of the review app. Services write them, queries read them."""

from review.models.assignments import (
    ActiveInterval,
    Assignment,
    Declined,
    Draft,
    FirstLook,
    Retraction,
    Review,
    Rewording,
    RewordingOutcome,
)
from review.models.audit import Audit, Chained, ChainHead, Event, PersonEvent
from review.models.cases import CalibrationItem, Case, account_created
from review.models.discussion import Guideline, Notice, Remark
from review.models.people import People, User
from review.models.review_forms import ReviewForm

__all__ = [
    "ActiveInterval",
    "Assignment",
    "Audit",
    "CalibrationItem",
    "Case",
    "ChainHead",
    "Chained",
    "Declined",
    "Draft",
    "Event",
    "FirstLook",
    "Guideline",
    "Notice",
    "People",
    "PersonEvent",
    "Remark",
    "Retraction",
    "Review",
    "ReviewForm",
    "Rewording",
    "RewordingOutcome",
    "User",
    "account_created",
]
