"""Who may open and post to which page.

Every address outside the API is requested by every role, without an account and with a closed one.
Of physicians there are two: the one who holds the case, and one who has no part in it. An address
that the table does not list fails here.
"""

import json
from collections.abc import Callable, Iterator
from http.cookies import SimpleCookie
from typing import Any

import pytest
from django.apps import apps
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from generation.models import ReleasedRubric
from generation.releases import services as releases_services
from review.answers import signatures
from review.cases.services import lease
from review.models import Assignment, Event, PersonEvent, Review
from review.rules import limits
from tests.api import test_permissions as api
from tests.api.conftest import uploads
from tests.engine import conversation
from tests.populations import population
from tests.review.approve import approval_of
from tests.review.forms.test_pages import typed
from tests.review.pages import posted_fields
from tests.site.routes import address, is_django_admin, routes
from tests.site.test_second_factor import enrol
from tests.site.world import World

__all__ = ["uploads"]

Page = Any  # a response of the test client: HttpResponse with more attributes
READ_STATEMENTS = ("SELECT", "SAVEPOINT", "RELEASE SAVEPOINT", "ROLLBACK TO SAVEPOINT")
PEOPLE = ("ana", "zoe", "rui", "adela")  # holder of the case, another physician, researcher, admin
AUDITOR = "aud"
SIGNED_OUT = ("anonymous", "closed")

# Pages without anything to read: auditors do not get them.
ONLY_TO_ACT = {
    "generation/removal/<slug:kind>/<int:pk>/",
    "review/cases/<int:case_id>/calibration/", "review/cases/<case:case_id>/names/",
    "review/people/new/", "review/people/import/",
    "review/people/<int:person_id>/edit/", "generation/sources/<slug:name>/tables/<str:token>/",
    "generation/new-webhook/", "generation/new-endpoint/", "generation/batches/new/",
    "generation/batches/<int:pk>/cancel/", "generation/releases/new/",
    "generation/prompts/<slug:benchmark>/<str:name>/edit/", "evaluation/runs/new/",
    "evaluation/runs/<int:pk>/checks/",
    "evaluation/runs/<int:pk>/add-model/", "evaluation/runs/<int:pk>/cancel/", "evaluation/runs/<int:pk>/validation/",
    "evaluation/releases/<slug:name>/<int:version>/publish/", "evaluation/releases/<slug:name>/<int:version>/withdraw/",
}  # fmt: skip

# GET and POST of the pages that do not ask visitors to sign in. A method that a page does not have
# is a 405 without a sign-in.
PUBLIC = {
    "accounts/login/": "200 200",
    "accounts/logout/": "302 302",
    "accounts/signup/": "200 200",  # says that nobody can sign up
    "accounts/inactive/": "200 405",
    "accounts/invitation/": "410 410",  # nobody was invited
    "accounts/invitation/<int:person_id>/<str:token>/": "302 405",
    "i18n/setlang/": "302 302",
    "styleguide/": "404 404",
    "health/": "200 200",
    "demo/loading/": "404 404",  # only for pages that ask again
    "admin/login/": "200 200",
    "public/releases/<slug:name>/": "200 405",
    "public/releases/<slug:name>/<int:version>/": "200 405",
}
GONE = {
    "accounts/password/set/",
    "accounts/email/",
    "accounts/confirm-email/",
    "accounts/confirm-email/<path:rest>",
    r"accounts/^confirm-email/(?P<key>[-:\w]+)/$",
    "accounts/password/reset/<path:rest>",
    "accounts/password/reset/",
    "accounts/password/reset/key/done/",
    r"accounts/^password/reset/key/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)/$",
    "accounts/password/reset/done/",
}

# fmt: off
TABLE = {  # GET and POST for PEOPLE, in their order; POST_DATA has what is posted
    "":                                                     ("302 302 302 302", "302 302 302 302"),
    "accounts/login/":                                      ("302 302 302 302", "302 302 302 302"),
    "accounts/logout/":                                     ("200 200 200 200", "302 302 302 302"),
    "accounts/inactive/":                                   ("200 200 200 200", "405 405 405 405"),
    "accounts/invitation/":                                 ("410 410 410 410", "410 410 410 410"),
    "accounts/invitation/<int:person_id>/<str:token>/":     ("302 302 302 302", "405 405 405 405"),
    "accounts/signup/":                                     ("302 302 302 302", "302 302 302 302"),
    "accounts/reauthenticate/":                             ("200 200 200 200", "200 200 200 200"),
    "accounts/password/change/":                            ("200 200 200 200", "302 302 302 302"),
    "accounts/login/code/confirm/":                         ("302 302 302 302", "302 302 302 302"),
    "kept/":                                                ("302 302 302 302", "302 302 302 302"),
    "accounts/own-data/":                                   ("405 405 405 405", "200 200 200 200"),
    "accounts/sessions/":                                   ("200 200 200 200", "302 302 302 302"),
    "accounts/second-factor/webauthn/":                     ("200 200 200 200", "405 405 405 405"),
    "accounts/second-factor/webauthn/add/":                 ("302 302 302 302", "302 302 302 302"),
    "accounts/second-factor/webauthn/reauthenticate/":      ("302 302 302 302", "302 302 302 302"),
    "accounts/second-factor/webauthn/keys/<int:pk>/remove/": ("302 302 302 302", "302 302 302 302"),
    "accounts/second-factor/webauthn/keys/<int:pk>/edit/":  ("302 302 302 302", "302 302 302 302"),
    "accounts/second-factor/webauthn/login/":               ("302 302 302 302", "302 302 302 302"),
    "search/":                                              ("403 403 200 200", "405 405 405 405"),
    "system/":                                              ("403 403 403 200", "405 405 405 405"),
    "system/resume/":                                       ("405 405 405 405", "403 403 403 302"),
    "accounts/tokens/":                                     ("302 302 302 302", "302 302 302 302"),
    "accounts/tokens/revoke/":                              ("405 405 405 405", "302 302 302 302"),
    "accounts/second-factor/":                              ("200 200 200 200", "405 405 405 405"),
    "accounts/second-factor/authenticate/":                 ("302 302 302 302", "302 302 302 302"),
    "accounts/second-factor/reauthenticate/":               ("302 302 302 302", "302 302 302 302"),
    "accounts/second-factor/totp/activate/":                ("302 302 302 302", "302 302 302 302"),
    "accounts/second-factor/totp/deactivate/":              ("404 404 404 404", "404 404 404 404"),
    "accounts/second-factor/recovery-codes/":               ("404 404 404 404", "405 405 405 405"),
    "accounts/second-factor/recovery-codes/generate/":      ("302 302 302 302", "302 302 302 302"),
    "accounts/second-factor/recovery-codes/download/":      ("404 404 404 404", "404 404 404 404"),
    "i18n/setlang/":                                        ("302 302 302 302", "302 302 302 302"),
    "styleguide/":                                          ("404 404 404 200", "404 404 404 200"),
    "demo/loading/":                                        ("404 404 404 404", "404 404 404 404"),
    "health/":                                              ("200 200 200 200", "200 200 200 200"),
    "api/docs/":                                            ("403 403 200 200", "403 403 405 405"),

    "review/":                                              ("200 200 403 403", "405 405 405 405"),
    "review/next/":                                         ("405 405 405 405", "302 302 403 403"),
    "review/guidelines/":                                   ("200 200 403 200", "405 405 405 405"),
    "review/guidelines/<slug:benchmark>/<slug:stage>/":     ("403 403 403 200", "403 403 403 302"),
    "review/forms/":                                        ("403 403 403 200", "405 405 405 405"),
    "review/forms/<slug:benchmark>/":                       ("403 403 403 200", "403 403 403 302"),
    "review/forms/<slug:benchmark>/preview/":               ("405 405 405 405", "403 403 403 200"),
    "review/forms/<slug:benchmark>/compare/":               ("403 403 403 200", "405 405 405 405"),
    "review/forms/<slug:benchmark>/restore/":               ("405 405 405 405", "403 403 403 302"),
    "review/cases/<case:case_id>/remarks/":                 ("405 405 405 405", "302 404 404 302"),
    "review/cases/<case:case_id>/names/":                   ("404 404 403 200", "405 405 405 405"),
    "review/notices/":                                      ("200 200 200 200", "302 302 302 302"),
    "review/notices/<int:notice_id>/":                      ("405 405 405 405", "302 404 404 404"),
    "review/assignments/<assignment:assignment_id>/":              ("200 404 403 403", "405 405 405 405"),
    "review/assignments/<assignment:assignment_id>/draft/":        ("302 302 403 403", "302 404 403 403"),
    "review/assignments/<assignment:assignment_id>/reveal/":       ("302 302 403 403", "302 404 403 403"),
    "review/assignments/<assignment:assignment_id>/submit/":       ("302 302 403 403", "302 404 403 403"),
    "review/assignments/<assignment:assignment_id>/release/":      ("302 302 403 403", "302 404 403 403"),
    "review/assignments/<assignment:assignment_id>/decline/":      ("200 404 403 403", "302 404 403 403"),
    "review/assignments/<assignment:assignment_id>/problem/":      ("302 404 403 403", "302 404 403 403"),
    "review/assignments/<assignment:assignment_id>/heartbeat/":    ("302 302 403 403", "200 404 403 403"),
    "review/assignments/<assignment:assignment_id>/activity/":     ("405 405 405 405", "204 404 403 403"),
    "review/recent-sources/":                               ("200 200 403 403", "405 405 405 405"),
    "review/mine/":                                         ("200 200 403 403", "405 405 405 405"),
    "review/mine/<int:review_id>/":                         ("200 404 403 403", "405 405 405 405"),
    "review/mine/<int:review_id>/correct/":                 ("200 404 403 403", "302 404 403 403"),
    "review/mine/<int:review_id>/retract/":                 ("405 405 405 405", "302 404 403 403"),
    "review/rewordings/<int:rewording_id>/":                ("200 404 403 403", "405 405 405 405"),
    "review/rewordings/<int:rewording_id>/accept/":         ("302 302 403 403", "302 404 403 403"),
    "review/rewordings/<int:rewording_id>/object/":         ("302 302 403 403", "302 404 403 403"),
    "review/languages/":                                    ("405 405 405 405", "302 302 403 403"),
    "review/keys/":                                         ("200 200 200 200", "422 422 422 422"),
    "review/me/":                                           ("200 200 403 403", "405 405 405 405"),
    "review/overview/":                                     ("403 403 403 200", "405 405 405 405"),
    "review/audit/":                                        ("403 403 403 200", "405 405 405 405"),
    "review/audit/site/":                                   ("403 403 403 200", "405 405 405 405"),
    "review/audit/check/":                                  ("403 403 403 302", "403 403 403 302"),
    "review/cases/":                                        ("403 403 403 200", "403 403 403 302"),
    "review/cases/elsewhere/":                              ("403 403 403 200", "403 403 403 200"),
    "review/cases/elsewhere/<slug:tool>/<str:file>":        ("403 403 403 409", "405 405 405 405"),
    "review/cases/<int:case_id>/":                          ("403 403 403 200", "405 405 405 405"),
    "review/cases/<int:case_id>/withdraw/":                 ("403 403 403 302", "403 403 403 302"),
    "review/cases/<int:case_id>/priority/":                 ("403 403 403 302", "403 403 403 302"),
    "review/cases/<int:case_id>/specialty/":                ("403 403 403 302", "403 403 403 302"),
    "review/cases/<int:case_id>/language/":                ("403 403 403 302", "403 403 403 302"),
    "review/cases/<int:case_id>/reassign/":                 ("403 403 403 302", "403 403 403 302"),
    "review/cases/<int:case_id>/set-back/":                 ("403 403 403 302", "403 403 403 302"),
    "review/cases/<int:case_id>/calibration/":              ("403 403 403 200", "403 403 403 302"),
    "review/calibration/":                                  ("403 403 403 200", "405 405 405 405"),
    "review/calibration/tour/":                             ("200 200 403 200", "405 405 405 405"),
    "review/calibration/tour/<slug:benchmark>/":            ("200 200 403 200", "405 405 405 405"),
    "review/calibration/tour/<slug:benchmark>/case/":       ("200 200 403 200", "422 422 403 422"),
    "review/calibration/<int:item_id>/":                    ("403 403 403 200", "403 403 403 302"),
    "review/people/":                                       ("403 403 403 200", "403 403 403 302"),
    "review/people/new/":                                   ("403 403 403 200", "403 403 403 302"),
    "review/people/import/":                                ("403 403 403 200", "403 403 403 200"),
    "review/people/<int:person_id>/":                       ("403 403 403 200", "405 405 405 405"),
    "review/people/<int:person_id>/edit/":                  ("403 403 403 200", "403 403 403 302"),
    "review/people/<int:person_id>/pause/":                 ("403 403 403 302", "403 403 403 302"),
    "review/people/<int:person_id>/calibration/":           ("403 403 403 302", "403 403 403 302"),
    "review/people/<int:person_id>/active/":                ("403 403 403 302", "403 403 403 302"),
    "review/people/<int:person_id>/anonymise/":            ("405 405 405 405", "403 403 403 302"),
    "review/people/<int:person_id>/password/":              ("403 403 403 302", "403 403 403 302"),
    "review/people/<int:person_id>/invitation/":            ("403 403 403 302", "403 403 403 200"),
    "review/people/<int:person_id>/second-factor/":         ("403 403 403 302", "403 403 403 302"),
    "review/agreement/":                                    ("403 403 403 200", "405 405 405 405"),
    "review/progress/":                                     ("403 403 403 200", "405 405 405 405"),
    "review/reviewers/<int:person_id>/":                    ("403 403 403 200", "405 405 405 405"),
    "review/reviewers/<int:person_id>/set-aside/":          ("405 405 405 405", "403 403 403 302"),

    "generation/sources/":                                  ("403 403 403 200", "403 403 403 302"),
    "generation/sources/<slug:name>/":                      ("403 403 403 200", "405 405 405 405"),
    "generation/sources/<slug:name>/tables/<str:token>/":  ("403 403 403 302", "403 403 403 302"),
    "generation/sources/<slug:name>/probes/":               ("403 403 403 200", "403 403 403 302"),
    "generation/sources/<slug:name>/imports/":              ("403 403 403 200", "405 405 405 405"),
    "generation/sources/<slug:name>/records/<int:pk>/":     ("403 403 403 200", "405 405 405 405"),
    "generation/images/<str:sha256>/":                       ("404 404 200 200", "405 405 405 405"),
    "generation/imports/<int:pk>/cancel/":                  ("405 405 405 405", "403 403 403 302"),
    "generation/webhooks/":                                 ("403 403 403 200", "405 405 405 405"),
    "generation/new-webhook/":                              ("403 403 403 200", "403 403 403 302"),
    "generation/webhooks/<slug:name>/":                     ("403 403 403 200", "403 403 403 302"),
    "generation/webhooks/<slug:name>/test/":                ("405 405 405 405", "403 403 403 302"),
    "generation/webhooks/<slug:name>/delete/":              ("405 405 405 405", "403 403 403 302"),
    "generation/deliveries/":                               ("403 403 403 200", "405 405 405 405"),
    "generation/reviewers/<int:person_id>/reopen/":         ("405 405 405 405", "403 403 403 302"),
    "generation/endpoints/":                                ("403 403 403 200", "405 405 405 405"),
    "generation/new-endpoint/":                             ("403 403 403 200", "403 403 403 302"),
    "generation/endpoints/<slug:name>/disable/":            ("405 405 405 405", "403 403 403 302"),
    "generation/endpoints/<slug:name>/delete/":             ("405 405 405 405", "403 403 403 409"),
    "generation/endpoints/<slug:name>/":                    ("403 403 403 200", "403 403 403 302"),
    "generation/endpoints/<slug:name>/endings/":           ("405 405 405 405", "403 403 403 302"),
    "generation/endpoints/<slug:name>/test/":               ("405 405 405 405", "403 403 403 302"),
    "generation/removal/<slug:kind>/<int:pk>/":            ("403 403 403 200", "403 403 403 302"),
    "generation/batches/":                                  ("403 403 403 200", "405 405 405 405"),
    "generation/batches/new/":                              ("403 403 403 200", "403 403 403 302"),
    "generation/batches/<int:pk>/":                         ("403 403 403 200", "405 405 405 405"),
    "generation/batches/<int:pk>/probes/":                  ("403 403 403 200", "403 403 403 302"),
    "generation/batches/<int:pk>/progress/":                ("403 403 403 200", "405 405 405 405"),
    "generation/batches/<int:pk>/analysis/":                ("403 403 403 404", "405 405 405 405"),
    "generation/batches/<int:pk>/funnel.svg":               ("403 403 403 200", "405 405 405 405"),
    "generation/batches/<int:pk>/costs/":                   ("403 403 403 200", "405 405 405 405"),
    "generation/batches/<int:pk>/merges/":                  ("403 403 403 404", "403 403 403 404"),
    "generation/drafts/<int:pk>/undo-merge/":               ("405 405 405 405", "403 403 403 422"),
    "generation/batches/<int:pk>/failures/":                ("403 403 403 200", "405 405 405 405"),
    "generation/batches/<int:pk>/cancel/":                  ("403 403 403 200", "403 403 403 302"),
    "generation/batches/<int:pk>/pause/":                   ("405 405 405 405", "403 403 403 302"),
    "generation/batches/<int:pk>/resume/":                  ("405 405 405 405", "403 403 403 302"),
    "generation/batches/<int:pk>/adapt/":                   ("405 405 405 405", "403 403 403 302"),
    "generation/batches/<int:pk>/budget/":                  ("405 405 405 405", "403 403 403 302"),
    "generation/batches/<int:pk>/retry/":                   ("405 405 405 405", "403 403 403 302"),
    "generation/batches/<int:pk>/checks/":                  ("403 403 403 200", "403 403 403 302"),
    "generation/drafts/<int:pk>/":                          ("403 403 403 200", "405 405 405 405"),
    "generation/drafts/<int:pk>/send-to-review/":              ("405 405 405 405", "403 403 403 302"),
    "generation/drafts/<int:pk>/discard/":                  ("405 405 405 405", "403 403 403 302"),
    "generation/attempts/":                                 ("403 403 403 200", "405 405 405 405"),
    "generation/comparisons/":                              ("403 403 403 200", "405 405 405 405"),
    "generation/comparisons/<int:pk>/":                     ("403 403 403 200", "405 405 405 405"),
    "generation/comparisons/<int:pk>/records/<int:record_id>/": ("403 403 403 200", "405 405 405 405"),
    "generation/samples/":                                  ("403 403 403 200", "403 403 403 302"),
    "generation/samples/<int:pk>/":                         ("403 403 403 200", "405 405 405 405"),
    "generation/samples/<int:pk>/report/":                  ("405 405 405 405", "403 403 404 409"),
    "generation/samples/<int:pk>/retry/":                  ("405 405 405 405", "403 403 403 409"),
    "generation/samples/<int:pk>/draw-again/":             ("405 405 405 405", "403 403 403 409"),
    "generation/samples/<int:pk>/withdraw/":                ("405 405 405 405", "403 403 403 409"),
    "generation/samples/<int:pk>/dismiss/":                 ("405 405 405 405", "403 403 403 409"),
    "generation/reviews/<int:review_id>/report/":           ("405 405 405 405", "404 404 403 403"),
    "generation/drafts/<int:pk>/calls/":                    ("403 403 403 200", "405 405 405 405"),
    "generation/releases/":                                 ("403 403 200 200", "405 405 405 405"),
    "generation/releases/new/":                              ("403 403 403 200", "403 403 403 302"),
    "generation/releases/<slug:name>/<int:version>/probes/": ("403 403 200 200", "403 403 403 302"),
    "generation/releases/<slug:name>/<int:version>/card/":  ("403 403 200 200", "405 405 405 405"),
    "generation/releases/<slug:name>/<int:version>/changes/": ("403 403 200 200", "405 405 405 405"),
    "generation/releases/<slug:name>/<int:version>/samples/<path:key>/": ("403 403 200 200", "405 405 405 405"),
    "generation/releases/freezes/":                         ("403 403 403 200", "405 405 405 405"),
    "generation/releases/<slug:name>/<int:version>/":       ("403 403 200 200", "405 405 405 405"),
    "generation/releases/<slug:name>/<int:version>/funnel.svg": ("403 403 200 200", "405 405 405 405"),
    "generation/releases/<slug:name>/<int:version>/samples/": ("403 403 200 200", "405 405 405 405"),
    "generation/releases/<slug:name>/<int:version>/export/<slug:format_name>/": ("403 403 200 200", "405 405 405 405"),
    "generation/releases/<slug:name>/<int:version>/ratings.csv": ("403 403 200 200", "405 405 405 405"),

    "generation/prompts/":                                  ("403 403 200 200", "405 405 405 405"),
    "generation/prompts/<slug:benchmark>/compare/":         ("403 403 200 200", "405 405 405 405"),
    "generation/prompts/<slug:benchmark>/<str:name>/":      ("403 403 404 404", "405 405 405 405"),
    "generation/prompts/<slug:benchmark>/<str:name>/edit/": ("403 403 403 404", "403 403 403 404"),
    "evaluation/playground/":                               ("403 403 403 200", "403 403 403 422"),
    "evaluation/playground/<uuid:trial>/":                    ("403 403 403 200", "405 405 405 405"),
    "evaluation/runs/":                                     ("403 403 200 200", "405 405 405 405"),
    "evaluation/runs/new/":                                 ("403 403 403 200", "403 403 403 302"),
    "evaluation/runs/import/":                              ("403 403 403 200", "403 403 403 302"),
    "evaluation/result-imports/<int:pk>/":                  ("403 403 403 200", "405 405 405 405"),
    "evaluation/result-imports/<int:pk>/progress/":         ("403 403 403 200", "405 405 405 405"),
    "evaluation/runs/<int:pk>/add-model/":                  ("403 403 403 200", "403 403 403 302"),
    "evaluation/runs/<int:pk>/checks/":                     ("403 403 403 200", "403 403 403 302"),
    "evaluation/runs/<int:pk>/description/":                ("405 405 405 405", "403 403 403 302"),
    "evaluation/runs/<int:pk>/models/<slug:name>/leave-out/": ("405 405 405 405", "403 403 403 302"),
    "evaluation/runs/<int:pk>/models/<slug:name>/add-again/": ("405 405 405 405", "403 403 403 302"),
    "evaluation/runs/<int:pk>/bundle/":                     ("403 403 200 200", "405 405 405 405"),
    "evaluation/runs/<int:pk>/compare/":                    ("403 403 200 200", "405 405 405 405"),
    "evaluation/runs/<int:pk>/changes/":                     ("403 403 200 200", "405 405 405 405"),
    # A protocol without contrasts has no flows.
    "evaluation/runs/<int:pk>/changes/figures/<slug:name>.csv": ("403 403 404 404", "405 405 405 405"),
    "evaluation/runs/<int:pk>/changes/figures/<slug:name>.svg": ("403 403 404 404", "405 405 405 405"),
    "evaluation/runs/<int:pk>/changes/samples/":             ("403 403 200 200", "405 405 405 405"),
    "evaluation/runs/<int:pk>/":                            ("403 403 200 200", "405 405 405 405"),
    "evaluation/runs/<int:pk>/progress/":                   ("403 403 200 200", "405 405 405 405"),
    "evaluation/runs/<int:pk>/failures/":                   ("403 403 200 200", "405 405 405 405"),
    "evaluation/runs/<int:pk>/cancel/":                     ("403 403 403 200", "403 403 403 302"),
    "evaluation/runs/<int:pk>/pause/":                      ("405 405 405 405", "403 403 403 302"),
    "evaluation/runs/<int:pk>/resume/":                     ("405 405 405 405", "403 403 403 302"),
    "evaluation/runs/<int:pk>/adapt/":                      ("405 405 405 405", "403 403 403 302"),
    "evaluation/runs/<int:pk>/budget/":                     ("405 405 405 405", "403 403 403 302"),
    "evaluation/runs/<int:pk>/retry/":                      ("405 405 405 405", "403 403 403 302"),
    "evaluation/runs/<int:pk>/report.json":                 ("403 403 200 200", "405 405 405 405"),
    "evaluation/runs/<int:pk>/report.md":                   ("403 403 200 200", "405 405 405 405"),
    "evaluation/runs/<int:pk>/report.tex":                  ("403 403 200 200", "405 405 405 405"),
    "evaluation/runs/<int:pk>/report.csv":                  ("403 403 200 200", "405 405 405 405"),
    "evaluation/runs/<int:pk>/judgments/":                  ("403 403 200 200", "405 405 405 405"),
    "evaluation/runs/<int:pk>/validation/":                 ("403 403 403 200", "403 403 403 422"),
    "evaluation/runs/<int:pk>/judgments/<int:judgment_id>/calls/": ("403 403 200 200", "405 405 405 405"),
    "evaluation/runs/<int:pk>/samples/<path:key>/":        ("403 403 200 200", "405 405 405 405"),
    "evaluation/runs/<int:pk>/human-baseline/":                    ("403 403 200 200", "405 405 405 405"),
    "evaluation/runs/<int:pk>/figures/<slug:name>.svg":     ("403 403 200 200", "405 405 405 405"),
    "evaluation/runs/<int:pk>/figures/<slug:name>.csv":     ("403 403 200 200", "405 405 405 405"),
    "evaluation/releases/<slug:name>/<int:version>/results/": ("403 403 200 200", "405 405 405 405"),
    "evaluation/releases/<slug:name>/<int:version>/publish/": ("403 403 403 200", "403 403 403 302"),
    "evaluation/releases/<slug:name>/<int:version>/withdraw/": ("403 403 403 200", "403 403 403 302"),

    "public/releases/<slug:name>/":                         ("200 200 200 200", "405 405 405 405"),
    "public/releases/<slug:name>/<int:version>/":           ("200 200 200 200", "405 405 405 405"),
}
# fmt: on


def assignment_form(world: World, **extra: object) -> dict[str, object]:
    """Return the fields that the page of Ana's case posts."""
    assignment = world.held["primary"]
    answers = posted_fields(approval_of(assignment.case.frozen.form))
    return {"token": str(assignment.token), "revision": "1", **answers, **extra}


def first_look_form(world: World) -> dict[str, object]:
    """Return the fields that the page of a case posts whose traps Ana has not seen yet."""
    assignment = world.held["unseen"]
    return {"token": str(assignment.token), **posted_fields(approval_of(assignment.case.frozen.form))}


def correction_form(world: World) -> dict[str, object]:
    """Return the fields that the page posts on which Ana corrects a review."""
    form = Review.objects.get(pk=world.review_id).case.frozen.form
    return {"correction": "I misread it.", **posted_fields(approval_of(form))}


def source_form(_world: World) -> dict[str, object]:
    return {
        "format": "healthbench",
        "name": "another",
        "file": SimpleUploadedFile("more.jsonl", json.dumps(conversation(1)).encode()),
    }


def annotations_form(world: World) -> dict[str, object]:
    response = {"value": ["approve"], "user_id": "ana", "status": "submitted"}
    row = {"metadata": {"case": world.waiting.pk, "field": "verdict"}, "responses": {"answer": [response]}}
    return {"tool": "argilla", "file": SimpleUploadedFile("records.json", json.dumps([row]).encode())}


def results_form(world: World) -> dict[str, object]:
    rubric = ReleasedRubric.objects.select_related("sample").filter(sample__release=world.release_id).order_by("pk")[0]
    row = {"sample": rubric.sample.key, "rubric": rubric.key, "model": "theirs", "met": True}
    file = SimpleUploadedFile("results.jsonl", json.dumps(row).encode())
    return {"release": world.release_id, "study": "elsewhere", "file": file}


ACCOUNT: dict[str, object] = {
    "languages": "en",
    "hospital": "West",
    "specialty": "",
    "first_name": "Nia",
    "last_name": "New",
}
PASSWORD = "a-quiet-reading-room-7"
WEBHOOK: dict[str, object] = {
    "name": "new-hook", "url": "http://hooks.example/", "secret_env": "MHB_KEY_HOOK", "occasions": ["frozen"], "active": "on",
}  # fmt: skip
ENDPOINT = {"url": "http://models.example/v1", "model": "new", "price_in": "1", "price_out": "1", "concurrency": "2"}


def second_factor_form(world: World) -> dict[str, Any]:
    """Enrol Ana, so that there is a second factor to remove. It is stored in no table of ours."""
    if not signatures.has_second_factor(world["ana"]):
        enrol(world["ana"])
    return {}


def preview_digest() -> str:
    """Return the digest of a release's preview. Without it, posting only shows the preview."""
    return releases_services.preview("next", benchmark="mhb").seen


# What is posted where. Posted by a user who may, each changes something, which a test checks.
POST_DATA: dict[str, Callable[[World], dict[str, object]]] = {
    "accounts/own-data/": lambda _: {},  # an event
    "accounts/password/change/": lambda _: {
        "oldpassword": "a-password-for-tests", "password1": PASSWORD, "password2": PASSWORD,
    },
    "review/next/": lambda _: {},
    "review/languages/": lambda _: {"languages": ["en"]},
    "generation/sources/<slug:name>/probes/": lambda _: {},
    "generation/removal/<slug:kind>/<int:pk>/": lambda _: {"action": "restore"},
    "generation/batches/<int:pk>/probes/": lambda _: {},
    "generation/releases/<slug:name>/<int:version>/probes/": lambda _: {},
    "generation/batches/<int:pk>/adapt/": lambda _: {},
    "evaluation/runs/<int:pk>/adapt/": lambda _: {},
    "review/reviewers/<int:person_id>/set-aside/": lambda _: {"reason": "2 s a case"},
    "review/guidelines/<slug:benchmark>/<slug:stage>/": lambda _: {"text": "Read it twice.", "base": "1"},
    "review/forms/<slug:benchmark>/": lambda w: w.review_form | {"do": "publish"},
    "review/forms/<slug:benchmark>/restore/": lambda _: {"version": "0", "base": "0"},
    "review/cases/": lambda world: {"action": "prioritise", "rows": world.waiting.pk, "prioritise-priority": "4"},
    "review/people/": lambda world: {"action": "pause", "rows": world["zoe"].pk},
    "generation/samples/": lambda world: {"action": "prioritise", "rows": world.sample_id, "prioritise-priority": "4"},
    "generation/batches/<int:pk>/checks/": lambda world: {
        "action": "discard", "rows": world.stopped_draft_id, "discard-reason": "A copy.",
    },
    "review/cases/<case:case_id>/remarks/": lambda _: {"text": "I am not sure."},
    "review/notices/": lambda _: {"occasions": ["mentioned"], "paused": "on"},
    "review/notices/<int:notice_id>/": lambda _: {},
    "generation/new-webhook/": lambda _: WEBHOOK,
    "generation/webhooks/<slug:name>/": lambda _: {**WEBHOOK, "name": "hook", "occasions": ["paused"]},
    "generation/webhooks/<slug:name>/test/": lambda _: {},
    "generation/webhooks/<slug:name>/delete/": lambda _: {},
    "generation/reviewers/<int:person_id>/reopen/": lambda _: {"reason": "2 s a case"},
    "review/assignments/<assignment:assignment_id>/draft/": assignment_form,
    "review/assignments/<assignment:assignment_id>/reveal/": first_look_form,
    "review/assignments/<assignment:assignment_id>/submit/": assignment_form,
    "review/assignments/<assignment:assignment_id>/release/": assignment_form,
    "review/assignments/<assignment:assignment_id>/decline/": lambda world: assignment_form(world, reason="other", text="No."),
    "review/assignments/<assignment:assignment_id>/problem/": lambda _: {"text": "A turn is missing."},
    "review/assignments/<assignment:assignment_id>/heartbeat/": assignment_form,
    "review/assignments/<assignment:assignment_id>/activity/": lambda world: {"stretches": world.activity_stretches()},
    "review/mine/<int:review_id>/correct/": correction_form,
    "review/mine/<int:review_id>/retract/": lambda _: {},
    "review/rewordings/<int:rewording_id>/accept/": lambda _: {},
    "review/rewordings/<int:rewording_id>/object/": lambda _: {"reason": "It says something else."},
    "review/audit/check/": lambda _: {},
    "review/cases/elsewhere/": annotations_form,
    "review/cases/<int:case_id>/withdraw/": lambda _: {"reason": "A copy of another."},
    "review/cases/<int:case_id>/priority/": lambda _: {"priority": "5"},
    "review/cases/<int:case_id>/specialty/": lambda _: {"specialty": "Cardiology"},
    "review/cases/<int:case_id>/language/": lambda _: {"language": "en"},
    "review/cases/<int:case_id>/reassign/": lambda world: {"role": "primary", "physician": world["zoe"].pk},
    "review/cases/<int:case_id>/set-back/": lambda _: {"role": "secondary", "reason": "On leave."},
    "review/cases/<int:case_id>/calibration/": lambda _: {"verdict": "approve"},
    "review/calibration/<int:item_id>/": lambda _: {"active": "0"},
    "review/people/new/": lambda _: {**ACCOUNT, "username": "nia", "role": "physician", "password": PASSWORD},
    "review/people/<int:person_id>/edit/": lambda _: ACCOUNT,
    "review/people/<int:person_id>/pause/": lambda _: {"paused": "1"},
    "review/people/<int:person_id>/calibration/": lambda _: {},
    "review/people/<int:person_id>/active/": lambda _: {"active": "0"},
    "review/people/<int:person_id>/anonymise/": lambda _: {"name": "ana"},
    "review/people/<int:person_id>/password/": lambda _: {"password": PASSWORD},
    "review/people/import/": lambda _: {"name": "people.csv", "text": "name\nNo Va\n", "import": "1"},
    "review/people/<int:person_id>/invitation/": lambda _: {},
    "review/people/<int:person_id>/second-factor/": second_factor_form,
    "generation/sources/": source_form,
    "generation/new-endpoint/": lambda _: {**ENDPOINT, "name": "new", "timeout": "60"},
    "generation/endpoints/<slug:name>/disable/": lambda _: {},
    "generation/endpoints/<slug:name>/endings/": lambda _: {"ending": "halted", "meaning": "cut_off"},
    "generation/endpoints/<slug:name>/test/": lambda _: {},
    "generation/endpoints/<slug:name>/": lambda _: {**ENDPOINT, "timeout": "61"},
    "generation/sources/<slug:name>/tables/<str:token>/": lambda _: {},
    "generation/batches/new/": lambda _: {
        "benchmark": "mhb", "source": "fresh", "role-generator": "model-1", "role-examiner": "model-1",
        "one_model": "on", "confirmed": "1",
    },
    "generation/imports/<int:pk>/cancel/": lambda _: {},
    "generation/batches/<int:pk>/cancel/": lambda _: {},
    "generation/batches/<int:pk>/pause/": lambda _: {},
    "generation/batches/<int:pk>/resume/": lambda _: {},
    "generation/batches/<int:pk>/budget/": lambda _: {"budget_calls": "77"},
    "generation/batches/<int:pk>/retry/": lambda _: {},
    "generation/drafts/<int:pk>/send-to-review/": lambda _: {"reason": "It is another patient."},
    "generation/drafts/<int:pk>/discard/": lambda _: {"reason": "It is a copy."},
    "generation/releases/new/": lambda _: {"name": "next", "benchmark": "mhb", "seen": preview_digest()},
    "evaluation/runs/new/": lambda world: {
        "release": world.release_id, "endpoints": ["model-1"], "judge": "judge", "judging": "per-rubric",
        "confirmed": "1",
    },
    "evaluation/runs/import/": lambda world: results_form(world),
    "evaluation/runs/<int:pk>/checks/": lambda world: {"again": "verdicts", "samples": "1", "confirmed": "1"},
    "evaluation/runs/<int:pk>/add-model/": lambda world: {"endpoint": world.judge.name, "confirmed": "1"},
    "evaluation/runs/<int:pk>/description/": lambda _: {"title": "Named", "note": ""},
    "evaluation/runs/<int:pk>/models/<slug:name>/leave-out/": lambda _: {},
    "evaluation/runs/<int:pk>/models/<slug:name>/add-again/": lambda _: {},
    "evaluation/runs/<int:pk>/cancel/": lambda _: {},
    "evaluation/runs/<int:pk>/pause/": lambda _: {},
    "evaluation/runs/<int:pk>/resume/": lambda _: {},
    "evaluation/runs/<int:pk>/budget/": lambda _: {"budget_calls": "77"},
    "evaluation/runs/<int:pk>/retry/": lambda _: {},
    "evaluation/releases/<slug:name>/<int:version>/publish/": lambda _: {},
    "evaluation/releases/<slug:name>/<int:version>/withdraw/": lambda _: {},
}  # fmt: skip
# These accept a POST and change no row of ours: they only show something, or change the session.
WITHOUT_EFFECT = {
    "", "health/", "styleguide/", "i18n/setlang/", "accounts/login/", "accounts/logout/", "accounts/signup/",
    "accounts/reauthenticate/", "accounts/login/code/confirm/",
    "accounts/second-factor/authenticate/", "accounts/second-factor/reauthenticate/",
    "accounts/second-factor/totp/activate/", "accounts/second-factor/recovery-codes/generate/",
    "accounts/tokens/", "accounts/tokens/revoke/", "accounts/sessions/",
    "accounts/second-factor/webauthn/add/", "accounts/second-factor/webauthn/reauthenticate/",
    "accounts/second-factor/webauthn/keys/<int:pk>/remove/", "accounts/second-factor/webauthn/keys/<int:pk>/edit/",
    "accounts/second-factor/webauthn/login/",
    "review/forms/<slug:benchmark>/preview/", "kept/",
    "system/resume/",  # the site was not restored
}  # fmt: skip


def expected(route: str, name: str, method: str) -> int | str:
    """Return the status that the table gives, or "login" for a redirect to the sign-in page."""
    if route in GONE:
        return 404
    column = ("GET", "POST").index(method)
    if name == AUDITOR:
        return expected_of_auditor(route, column)
    if name in PEOPLE:
        return int(TABLE[route][column].split()[PEOPLE.index(name)])
    if route in PUBLIC:
        return int(PUBLIC[route].split()[column])
    refused_to_all = set(TABLE[route][column].split()) == {"405"}
    return 405 if refused_to_all and not route.startswith("accounts/") else "login"


def expected_of_auditor(route: str, column: int) -> int:
    """What an auditor gets: what an admin reads, and nowhere more than those who have no part."""
    *_physicians, researcher, admin = map(int, TABLE[route][column].split())
    if route == "review/calibration/tour/<slug:benchmark>/case/":  # a post stores nothing
        return admin
    if column == 0:
        return 403 if route in ONLY_TO_ACT else admin
    if route in ("generation/samples/<int:pk>/report/", "api/docs/"):
        return 403
    open_to_all = len(set(TABLE[route][column].split())) == 1
    return researcher if open_to_all or researcher >= 400 else 403


def all_rows(statements: str | None = None) -> dict[str, list[Any]]:
    """Return all rows of our tables, or of the tables that these SQL statements mention."""
    our_models = [
        model for app in ("review", "generation", "evaluation") for model in apps.get_app_config(app).get_models()
    ]
    return {
        model._meta.label: list(model._default_manager.order_by("pk").values_list())
        for model in our_models
        if statements is None or model._meta.db_table in statements
    }


@population
def world() -> World:
    new_world = World()
    admin = signed_in(new_world, "adela")
    new_world.review_form = typed(admin.get(reverse("review:form-edit", args=["mhb"])).content.decode())
    # Counts are stored when a page first needs them. Have them stored now: a visitor's request is
    # rolled back, so each would count them again.
    for route in OUR_ROUTES:
        if route.startswith(("evaluation/runs/<int:pk>", "evaluation/releases/", "public/")):
            send(admin, "GET", route, new_world)
    return new_world


class Visitor:
    """A person at a browser, whose requests are rolled back."""

    def __init__(self, world: World, client: Client, before: dict[str, list[Any]]) -> None:
        self._world, self._client, self._before = world, client, before
        self._session = dict(client.cookies)

    def request(self, method: str, route: str) -> tuple[int | str, bool]:
        """Request a page. Returns its status, or "login", and whether rows have changed.

        Rows are compared only where the page has executed statements that write.
        """
        writes = []

        def record_writes(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
            if not sql.startswith(READ_STATEMENTS):
                writes.append(sql)
            return execute(sql, *rest)

        with transaction.atomic():
            with connection.execute_wrapper(record_writes):
                response = send(self._client, method, route, self._world)
            changed = method == "POST" and not all_rows("".join(writes)).items() <= self._before.items()
            transaction.set_rollback(True)
        self._client.cookies = SimpleCookie({name: morsel.value for name, morsel in self._session.items()})
        redirected = response.status_code == 302 and response["Location"].startswith(reverse("account_login"))
        return ("login" if redirected else response.status_code), changed


@pytest.mark.parametrize("name", [*PEOPLE, AUDITOR])
def test_looking_again_adds_no_row(world: World, name: str) -> None:
    """Rows of the trail are for good: no page may be reloaded to make more of them."""
    chained = (Event, PersonEvent)
    client = signed_in(world, name)
    client.raise_request_exception = False
    grew = []
    for route in routes():
        if is_django_admin(route):
            continue
        send(client, "GET", route, world)
        before = [model.objects.count() for model in chained]
        send(client, "GET", route, world)
        if [model.objects.count() for model in chained] != before:
            grew.append(route)
        client = signed_in(world, name, raise_request_exception=False)
    assert grew == []


# Rows that visitors may make: limited for each address (tests/site/test_sign_in_limits.py).
BY_VISITORS = {
    ("accounts/second-factor/webauthn/login/", "django_session"),
    ("accounts/login/", "axes_accessattempt"),
    ("admin/login/", "axes_accessattempt"),
    ("auth/token/", "axes_accessattempt"),
}


@pytest.mark.parametrize("script", [False, True], ids=["page", "script"])
def test_no_request_of_a_visitor_makes_a_row(world: World, uploads: Any, script: bool) -> None:
    """Every method of every page and of the API, with what somebody who may would post."""
    made: set[tuple[str, str]] = set()

    def record(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if sql.startswith(("INSERT", "UPDATE", "DELETE")):
            made.add((route, sql.split('"')[1]))
        return execute(sql, *rest)

    headers = {"x-requested-with": "XMLHttpRequest", "hx-request": "true"} if script else {}
    pages = {route: address(route, world) for route in routes()}
    pages |= {str(found.pattern): api.address(name) for name, found in api.routes().items()}
    for route, url in pages.items():
        posted = POST_DATA[route](world) if route in POST_DATA else {}
        with connection.execute_wrapper(record):
            Client(raise_request_exception=False, headers=headers).post(url, posted)
            for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"):
                client = Client(raise_request_exception=False, headers=headers)
                client.generic(method, url, "{}", content_type="application/json")
    in_tables = {(route, table) for route, table in made if table != "mhb_site_cache"}  # which has a limit
    assert in_tables <= BY_VISITORS


LONG_TEXT = "x" * (max(limits.GUIDELINE, limits.PROMPT) + 10_000)  # longer than the longest text that anybody may write
LONGEST_HEADER = 4_096  # characters that a proxy reads of a header, with its name
OPTIONAL_TEXTS = ("reason", "because", "note", "text", "title")  # optional on some pages


def long_posts(world: World) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(person, route, what is posted): each free text of each page in turn, then optional ones."""
    for name in PEOPLE:
        for route in POST_DATA:
            if int(expected(route, name, "POST")) >= 400:
                continue
            posted = POST_DATA[route](world)
            for field, value in posted.items():
                if isinstance(value, str) and " " in value:
                    yield name, route, {**posted, field: LONG_TEXT}
            yield name, route, {**dict.fromkeys(OPTIONAL_TEXTS, LONG_TEXT), **posted}
            yield name, route, {**posted, "local": LONG_TEXT}


def test_no_page_stores_a_text_without_end(world: World, uploads: Any) -> None:
    stored: set[str] = set()
    wrong: set[tuple[str, str]] = set()

    def record(execute: Callable[..., Any], sql: str, params: Any, *rest: Any) -> Any:
        if sql.startswith(("INSERT", "UPDATE")) and LONG_TEXT in str(params):
            stored.add(sql.split('"')[1])
        return execute(sql, params, *rest)

    for name, route, posted in long_posts(world):
        stored.clear()
        client = Client(raise_request_exception=False)  # another may have been signed out by what it posted
        with transaction.atomic(), connection.execute_wrapper(record):
            client.force_login(world[name])
            answer = client.post(address(route, world), posted)
            assert "/login/" not in answer.headers.get("Location", "")
            transaction.set_rollback(True)
        if answer.status_code >= 500:
            wrong.add((route, str(answer.status_code)))
        wrong |= {(route, table) for table in stored}
        wrong |= {(route, header) for header, value in answer.headers.items() if len(value) > LONGEST_HEADER}
    assert wrong == set()


def signed_in(world: World, name: str, **options: Any) -> Client:
    client = Client(**options)
    if name != "anonymous":
        client.force_login(world[name])
    return client


def send(client: Client, method: str, route: str, world: World) -> Page:
    data = POST_DATA[route](world) if method == "POST" and route in POST_DATA else {}
    return (
        client.generic(method, address(route, world)) if method == "GET" else client.post(address(route, world), data)
    )


OUR_ROUTES = [route for route in routes() if not is_django_admin(route)]


@pytest.mark.plain
def test_the_table_lists_every_page_and_no_other() -> None:
    assert set(OUR_ROUTES) == set(TABLE) | GONE
    assert not set(TABLE) & GONE
    assert set(PUBLIC) <= {*TABLE, "admin/login/"}


@pytest.mark.plain
def test_every_page_that_accepts_a_post_has_data_to_post() -> None:
    accepting = {route for route in TABLE if any(int(status) < 400 for status in TABLE[route][1].split())}
    assert accepting == set(POST_DATA) | WITHOUT_EFFECT


@pytest.mark.parametrize("name", [*PEOPLE, AUDITOR, *SIGNED_OUT])
def test_every_role_gets_the_statuses_in_the_table(world: World, uploads: Any, name: str) -> None:
    """A refused POST must also have changed nothing."""
    visitor = Visitor(world, signed_in(world, name), all_rows())
    wrong = []
    for route in OUR_ROUTES:
        for method in ("GET", "POST"):
            status, changed = visitor.request(method, route)
            if status != expected(route, name, method):
                wrong.append((method, route, status))
            if changed and (status == "login" or int(status) >= 400):
                wrong.append((method, route, "changed something"))
    assert wrong == []


def test_an_allowed_post_changes_something(world: World, uploads: Any) -> None:
    """Otherwise the test above would prove nothing."""
    # A heartbeat does not renew a fresh lease, so it would change nothing.
    Assignment.objects.filter(hold="held").update(lease_until=timezone.now() + lease() / 2)
    clients = {name: signed_in(world, name) for name in PEOPLE}
    without_effect, before = [], all_rows()
    for name, client in clients.items():
        visitor = Visitor(world, client, before)
        allowed = [route for route in POST_DATA if int(expected(route, name, "POST")) < 400]
        without_effect += [(name, route) for route in allowed if not visitor.request("POST", route)[1]]
    # Ana holds a case, so asking for the next one gives her none. MHB's cases are first seen
    # without their traps, so annotations of another tool are refused.
    empty = ("review/cases/elsewhere/", "generation/sources/<slug:name>/tables/<str:token>/")  # empty forms
    # No model was found to refuse anything, so nothing is adapted.
    adapted = ("generation/batches/<int:pk>/adapt/", "evaluation/runs/<int:pk>/adapt/")
    # Ana has reviewed nothing that is approved and in no release.
    reopened = "generation/reviewers/<int:person_id>/reopen/"
    nothing = (*empty, *adapted, reopened)
    assert set(without_effect) <= {("ana", "review/next/"), *(("adela", page) for page in nothing)}


def test_a_post_without_a_csrf_token_is_refused(world: World) -> None:
    clients = {name: signed_in(world, name, enforce_csrf_checks=True) for name in PEOPLE}
    accepted, before = [], all_rows()
    for name, client in clients.items():
        accepted += [
            (name, route)
            for route in [*POST_DATA, *WITHOUT_EFFECT]
            if send(client, "POST", route, world).status_code != 403
        ]
        assert all_rows() == before
    assert accepted == []


def test_djangos_admin_is_closed_to_everyone_but_operators(world: World) -> None:
    """Even to an admin of the site: only an operator sets `is_staff`."""
    admin_routes = [route for route in routes() if is_django_admin(route)]
    assert len(admin_routes) > 50
    clients = {name: signed_in(world, name) for name in ("anonymous", "closed", "ana", "rui", "adela")}
    opened, before = [], all_rows()
    for name, client in clients.items():
        for route in admin_routes:
            responses: list[Page] = [client.get(address(route, world)), client.post(address(route, world))]
            redirected = all(page.status_code == 302 and "login" in page["Location"] for page in responses)
            if not redirected and route not in ("admin/login/", "admin/logout/"):
                opened.append((name, route))
        assert all_rows() == before
    assert opened == []


def test_an_operator_changes_neither_cases_nor_results_in_djangos_admin(world: World) -> None:
    """Only accounts and taxonomy terms can be changed there, through the services."""
    client = signed_in(world, "keeper", raise_request_exception=False)
    broken, open_to_change = [], set()
    for route in (route for route in routes() if is_django_admin(route) and "logout" not in route):
        status = client.get(address(route, world)).status_code
        if status >= 500:
            broken.append((route, status))
        app, _, rest = route.removeprefix("admin/").partition("/")
        changes = app in ("review", "generation", "evaluation") and rest.endswith(("/add/", "/change/", "/delete/"))
        if changes and client.post(address(route, world), {"post": "no"}).status_code != 403:
            open_to_change.add(rest.partition("/")[0])
    assert broken == []
    assert open_to_change == {"user", "taxonomyterm"}
