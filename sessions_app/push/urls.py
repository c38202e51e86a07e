"""The addresses of notifications."""

from django.urls import path

from sessions_app.push import views

urlpatterns = [
    path("notifications", views.page, name="notifications"),
    path("notifications/settings", views.save, name="notifications-save"),
    path("notifications/device", views.device, name="notifications-device"),
    path("notifications/test", views.test, name="notifications-test"),
    path("notifications/ready", views.ready, name="notifications-ready"),
    path("notifications/sessions/<uuid:session>", views.session, name="notifications-session"),
]
