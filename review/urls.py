"""The pages of review."""

from django.urls import path

from review import public_ids as public_ids  # registers <assignment:> and <case:>
from review import views, views_assign, views_audit, views_talk, views_training, views_trust

app_name = "review"

urlpatterns = [
    path("", views.workbench, name="workbench"),
    path("next/", views.next_case, name="next"),
    path("next/peek/", views.peek, name="peek"),
    path("guidelines/", views_talk.guidelines, name="guidelines"),
    path("guidelines/<slug:benchmark>/<slug:stage>/", views_talk.guideline_edit, name="guideline-edit"),
    path("cases/<case:case_id>/remarks/", views_talk.remark, name="remark"),
    path("notices/<int:notice_id>/", views_talk.notice, name="notice"),
    path("assignments/<assignment:assignment_id>/", views.case, name="case"),
    path("assignments/<assignment:assignment_id>/draft/", views.draft, name="draft"),
    path("assignments/<assignment:assignment_id>/reveal/", views.reveal, name="reveal"),
    path("assignments/<assignment:assignment_id>/submit/", views.submit, name="submit"),
    path("assignments/<assignment:assignment_id>/release/", views.release, name="release"),
    path("assignments/<assignment:assignment_id>/decline/", views_assign.decline, name="decline"),
    path("assignments/<assignment:assignment_id>/problem/", views_assign.problem, name="problem"),
    path("assignments/<assignment:assignment_id>/heartbeat/", views.heartbeat, name="heartbeat"),
    path("mine/", views.mine, name="mine"),
    path("mine/<int:review_id>/", views.mine_detail, name="mine-detail"),
    path("mine/<int:review_id>/retract/", views.retract, name="retract"),
    path("overview/", views.overview, name="overview"),
    path("audit/", views_audit.trail, name="audit"),
    path("audit/check/", views_audit.check, name="audit-check"),
    path("cases/", views.cases, name="cases"),
    path("cases/<int:case_id>/", views.history, name="history"),
    path("cases/<int:case_id>/withdraw/", views.withdraw, name="withdraw"),
    path("cases/<int:case_id>/priority/", views.priority, name="priority"),
    path("cases/<int:case_id>/reassign/", views_assign.reassign, name="reassign"),
    path("cases/<int:case_id>/specialty/", views_assign.specialty, name="specialty"),
    path("cases/<int:case_id>/set-back/", views_assign.set_back, name="set-back"),
    path("cases/<int:case_id>/calibration/", views_training.calibration_new, name="calibration-new"),
    path("calibration/", views_training.calibration, name="calibration"),
    path("calibration/<int:item_id>/", views_training.calibration_item, name="calibration-item"),
    path("people/", views.people, name="people"),
    path("people/new/", views.person_new, name="person-new"),
    path("people/<int:person_id>/", views.person_detail, name="person"),
    path("people/<int:person_id>/edit/", views_assign.person_edit, name="person-edit"),
    path("people/<int:person_id>/pause/", views_assign.person_pause, name="person-pause"),
    path("people/<int:person_id>/calibration/", views_assign.person_calibration, name="person-calibration"),
    path("people/<int:person_id>/active/", views.person_active, name="person-active"),
    path("people/<int:person_id>/password/", views.person_password, name="person-password"),
    path("people/<int:person_id>/second-factor/", views.person_second_factor, name="person-second-factor"),
    path("agreement/", views_trust.agreement, name="agreement"),
    path("progress/", views_trust.progress_page, name="progress"),
    path("me/", views_trust.me, name="me"),
    path("reviewers/<int:person_id>/", views_trust.reviewer, name="reviewer"),
    path("assignments/<assignment:assignment_id>/activity/", views_trust.record_activity, name="activity"),
]
