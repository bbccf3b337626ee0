"""Access to stored images: a user may see an image if they may see a case that shows it."""

from datetime import date, timedelta

from django.core.signing import Signer
from django.db.models import TextField
from django.db.models.functions import Cast
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from review.models import User
from review.rules.blocks import Images, Picture
from review.rules.permissions import Can, may_read
from review.turns.turn import ReviewTurn, turn_rows

_SIGNER = Signer(salt="review.pictures")


def picture_token(user: object, sha256: str) -> str:
    """Sign the address of an image on a page shown to `user`.

    The token is valid on the day it is issued and on the next (UTC).
    """
    if getattr(user, "pk", None):
        return _token(user, sha256, timezone.now().date())
    return ""


def _token(user: object, sha256: str, day: date) -> str:
    return _SIGNER.signature(f"{getattr(user, 'pk', '')}:{sha256}:{day.isoformat()}")


def may_see_picture(user: User, sha256: str, token: str = "") -> bool:
    """Whether `user` may see an image.

    Users who oversee cases, make samples or read results may see every image. Others need a token
    from a page that showed them the image, or a case of their own that contains it.
    """
    if any(may_read(user, can) for can in (Can.OVERSEE, Can.PRODUCE, Can.READ_RESULTS)):
        return True
    return _is_signed(user, sha256, token) or _is_in_own_case(user, sha256)


def _is_signed(user: User, sha256: str, token: str) -> bool:
    today = timezone.now().date()
    return any(constant_time_compare(token, _token(user, sha256, today - timedelta(days=n))) for n in (0, 1))


def _is_in_own_case(user: User, sha256: str) -> bool:
    # Search only the user's own cases, a small part of the table.
    own = turn_rows(user).filter(physician=user).annotate(text=Cast("case__spec", TextField()))
    pictures: list[Picture] = []
    for assignment in own.filter(text__contains=sha256):
        for block in ReviewTurn(user, assignment).shows.blocks:
            if isinstance(block, Images):
                pictures += block.pictures
    return any(picture.sha256 == sha256 for picture in pictures)
