"""The reasons that people give for decisions on samples and drafts: kept on record as written."""

from generation.errors import ReasonMissing
from review.errors import TooLong
from review.rules import limits
from review.rules.text import unified_newlines


def checked_reason(text: str) -> str:
    """The reason without white space around it. Raises ReasonMissing, TooLong."""
    reason = unified_newlines(text).strip()  # browsers post two characters for each
    if not reason:
        raise ReasonMissing
    if len(reason) > limits.REMARK:
        raise TooLong
    return reason
