"""The addresses of the pages about oneself."""

from django.urls import path

from sessions_app.people import views

urlpatterns = [
    path("signin/", views.signin_page, name="signin"),
    path("signin/<str:secret>", views.signin_link, name="signin-link"),
    path("signout", views.signout, name="signout"),
    path("devices", views.devices_page, name="devices"),
    path("devices/signout", views.signout_everywhere, name="signout-everywhere"),
    path("devices/<uuid:device>/signout", views.device_signout, name="device-signout"),
    path("tokens/<uuid:token>/revoke", views.token_revoke, name="token-revoke"),
    path("s/<uuid:session>/qr.svg", views.session_qr, name="session-qr"),
]
