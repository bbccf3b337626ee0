"""The pages of review."""

from django.urls import path

from review.assignments import own_reviews
from review.assignments import views as assignments_views
from review.audit import views as audit_views
from review.calibration import views as calibration_views
from review.cases import views as cases_views
from review.discussion import views as discussion_views
from review.forms import views as forms_views
from review.people import views as people_views
from review.quality import views as quality_views
from review.rewordings import views as rewordings_views

app_name = "review"

urlpatterns = [
    path("", assignments_views.workbench, name="workbench"),
    path("next/", assignments_views.next_case, name="next"),
    path("guidelines/", discussion_views.guidelines, name="guidelines"),
    path("guidelines/<slug:benchmark>/<slug:stage>/", discussion_views.guideline_edit, name="guideline-edit"),
    path("forms/", forms_views.forms, name="forms"),
    path("forms/<slug:benchmark>/", forms_views.form_edit, name="form-edit"),
    path("forms/<slug:benchmark>/preview/", forms_views.form_preview, name="form-preview"),
    path("forms/<slug:benchmark>/compare/", forms_views.form_compare, name="form-compare"),
    path("forms/<slug:benchmark>/restore/", forms_views.form_restore, name="form-restore"),
    path("cases/<case:case_id>/remarks/", discussion_views.remark, name="remark"),
    path("cases/<case:case_id>/names/", discussion_views.names, name="names"),
    path("notices/", discussion_views.notices, name="notices"),
    path("notices/<int:notice_id>/", discussion_views.notice, name="notice"),
    path("assignments/<assignment:assignment_id>/", assignments_views.case, name="case"),
    path("assignments/<assignment:assignment_id>/draft/", assignments_views.draft, name="draft"),
    path("assignments/<assignment:assignment_id>/reveal/", assignments_views.reveal, name="reveal"),
    path("assignments/<assignment:assignment_id>/submit/", assignments_views.submit, name="submit"),
    path("assignments/<assignment:assignment_id>/release/", assignments_views.release, name="release"),
    path("assignments/<assignment:assignment_id>/decline/", own_reviews.decline, name="decline"),
    path("assignments/<assignment:assignment_id>/problem/", own_reviews.problem, name="problem"),
    path("assignments/<assignment:assignment_id>/heartbeat/", assignments_views.heartbeat, name="heartbeat"),
    path("recent-sources/", own_reviews.recent_sources, name="recent-sources"),
    path("mine/", own_reviews.mine, name="mine"),
    path("mine/<int:review_id>/", own_reviews.mine_detail, name="mine-detail"),
    path("mine/<int:review_id>/correct/", own_reviews.correct, name="correct"),
    path("mine/<int:review_id>/retract/", assignments_views.retract, name="retract"),
    path("rewordings/<int:rewording_id>/", rewordings_views.rewording, name="rewording"),
    path("rewordings/<int:rewording_id>/accept/", rewordings_views.accept, name="rewording-accept"),
    path("rewordings/<int:rewording_id>/object/", rewordings_views.object_to, name="rewording-object"),
    path("overview/", cases_views.overview, name="overview"),
    path("audit/", audit_views.trail, name="audit"),
    path("audit/site/", audit_views.site_trail, name="audit-site"),
    path("audit/check/", audit_views.check, name="audit-check"),
    path("cases/", cases_views.cases, name="cases"),
    path("cases/elsewhere/", cases_views.annotate_elsewhere, name="annotate-elsewhere"),
    path("cases/elsewhere/<slug:tool>/<str:file>", cases_views.task_file, name="task-file"),
    path("cases/<int:case_id>/", cases_views.history, name="history"),
    path("cases/<int:case_id>/withdraw/", cases_views.withdraw, name="withdraw"),
    path("cases/<int:case_id>/priority/", cases_views.priority, name="priority"),
    path("cases/<int:case_id>/reassign/", cases_views.reassign, name="reassign"),
    path("cases/<int:case_id>/specialty/", cases_views.specialty, name="specialty"),
    path("cases/<int:case_id>/language/", cases_views.language, name="case-language"),
    path("cases/<int:case_id>/set-back/", cases_views.set_back, name="set-back"),
    path("cases/<int:case_id>/calibration/", calibration_views.calibration_new, name="calibration-new"),
    path("calibration/", calibration_views.calibration, name="calibration"),
    path("calibration/<int:item_id>/", calibration_views.calibration_item, name="calibration-item"),
    path("calibration/tour/", calibration_views.tour, name="tour"),
    path("calibration/tour/<slug:benchmark>/", calibration_views.tour, name="tour"),
    path("calibration/tour/<slug:benchmark>/case/", calibration_views.tour_case, name="tour-case"),
    path("people/", people_views.people, name="people"),
    path("people/new/", people_views.person_new, name="person-new"),
    path("people/import/", people_views.people_import, name="people-import"),
    path("people/<int:person_id>/", people_views.person_detail, name="person"),
    path("people/<int:person_id>/edit/", people_views.person_edit, name="person-edit"),
    path("people/<int:person_id>/pause/", people_views.person_pause, name="person-pause"),
    path("people/<int:person_id>/calibration/", people_views.person_calibration, name="person-calibration"),
    path("people/<int:person_id>/active/", people_views.person_active, name="person-active"),
    path("people/<int:person_id>/anonymise/", people_views.person_anonymise, name="person-anonymise"),
    path("people/<int:person_id>/password/", people_views.person_password, name="person-password"),
    path("people/<int:person_id>/invitation/", people_views.person_invitation, name="person-invitation"),
    path("people/<int:person_id>/second-factor/", people_views.person_second_factor, name="person-second-factor"),
    path("agreement/", quality_views.agreement, name="agreement"),
    path("progress/", quality_views.progress_page, name="progress"),
    path("languages/", people_views.own_languages, name="own-languages"),
    path("keys/", people_views.own_keys, name="own-keys"),
    path("me/", quality_views.me, name="me"),
    path("reviewers/<int:person_id>/", quality_views.reviewer, name="reviewer"),
    path("reviewers/<int:person_id>/set-aside/", quality_views.set_aside, name="set-aside"),
    path("assignments/<assignment:assignment_id>/activity/", quality_views.record_activity, name="activity"),
]
