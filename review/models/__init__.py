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
from review.models.notifications import Delivery, Occasion, Webhook
from review.models.people import People, User
from review.models.review_forms import ReviewForm
from review.models.site_pause import SitePause
