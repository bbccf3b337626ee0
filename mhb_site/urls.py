"""All URLs of the site."""

from allauth.account.decorators import secure_admin_login
from allauth.mfa.recovery_codes.views import generate_recovery_codes
from allauth.mfa.totp.views import activate_totp, deactivate_totp
from allauth.mfa.webauthn.views import add_webauthn, edit_webauthn, login_webauthn, remove_webauthn
from django.contrib import admin
from django.contrib.auth.decorators import login_required
from django.urls import include, path

from evaluation.releases import views as releases_views
from generation.images import views as images_views
from mhb_site import views
from mhb_site.demo import views as demo_views
from mhb_site.observability import system
from mhb_site.sign_in import first_password, language, own_data, sessions, sso, tokens
from mhb_site.sign_in.limits import limit_beginnings
from mhb_site.web import kept_forms, search
from review.people.accounts import record_factor_changes

# The admin uses the site's own sign-in, which asks for the second factor.
admin.autodiscover()
admin.site.login = secure_admin_login(admin.site.login)  # type: ignore[method-assign]

_SECOND_FACTOR_CHANGES = [  # allauth's pages, wrapped so that changes record an event and visitors begin no session
    path("totp/activate/", login_required(record_factor_changes(activate_totp)), name="mfa_activate_totp"),
    path("totp/deactivate/", login_required(record_factor_changes(deactivate_totp)), name="mfa_deactivate_totp"),
    path("webauthn/login/", limit_beginnings(login_webauthn), name="mfa_login_webauthn"),
    path("webauthn/add/", login_required(record_factor_changes(add_webauthn)), name="mfa_add_webauthn"),
    path("webauthn/keys/<int:pk>/edit/", login_required(edit_webauthn), name="mfa_edit_webauthn"),
    path(
        "webauthn/keys/<int:pk>/remove/",
        login_required(record_factor_changes(remove_webauthn)),
        name="mfa_remove_webauthn",
    ),
    path(
        "recovery-codes/generate/",
        login_required(record_factor_changes(generate_recovery_codes)),
        name="mfa_generate_recovery_codes",
    ),
]

urlpatterns = [
    path("", views.home, name="home"),
    path("accounts/password/reset/<path:rest>", views.gone),
    path("accounts/password/reset/", views.gone),
    path("accounts/password/set/", views.gone),
    path("accounts/email/", views.gone),
    path("accounts/confirm-email/<path:rest>", views.gone),
    path("accounts/confirm-email/", views.gone),
    path("accounts/own-data/", own_data.own_data, name="own-data"),
    path("accounts/sessions/", sessions.sessions, name="sessions"),
    path("accounts/tokens/", tokens.tokens, name="tokens"),
    path("accounts/tokens/revoke/", tokens.revoke_token, name="token-revoke"),
    path("accounts/invitation/<int:person_id>/<str:token>/", first_password.invitation, name="invitation"),
    path("accounts/invitation/", first_password.first_password, name="first-password"),
    path("accounts/second-factor/", include(_SECOND_FACTOR_CHANGES)),
    path("accounts/second-factor/", include("allauth.mfa.urls")),
    path("accounts/sso/", include(sso.provider_urls())),
    path("accounts/", include("allauth.account.urls")),
    path("i18n/setlang/", language.set_language, name="set_language"),
    path("admin/", admin.site.urls),
    path("review/", include("review.urls")),
    path("generation/images/<str:sha256>/", images_views.image, name="image"),
    path("generation/", include("generation.urls")),
    path("evaluation/", include("evaluation.urls")),
    path("public/releases/<slug:name>/", releases_views.public, name="public-release"),
    path("public/releases/<slug:name>/<int:version>/", releases_views.public, name="public-release-version"),
    path("api/", include("mhb_site.api")),
    path("search/", search.search, name="search"),
    path("system/", system.system, name="system"),
    path("system/resume/", system.resume, name="system-resume"),
    path("styleguide/", views.styleguide, name="styleguide"),
    path("kept/", login_required(kept_forms.kept_form), name="kept-form"),
    path("demo/loading/", demo_views.loading, name="demo-loading"),
    path("health/", views.health, name="health"),
]

handler400 = "mhb_site.web.errors.bad_request"
handler404 = "mhb_site.web.errors.not_found"
handler500 = "mhb_site.web.errors.server_error"
