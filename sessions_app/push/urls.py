"""The addresses of notifications, and of what makes the site an app."""

from django.urls import path

from sessions_app.push import installing, views

urlpatterns = [
    path("manifest.webmanifest", installing.manifest, name="manifest"),
    path("sw.js", installing.service_worker, name="service-worker"),
    path("offline", installing.offline, name="offline"),
    path("notifications", views.page, name="notifications"),
    path("notifications/settings", views.save, name="notifications-save"),
    path("notifications/device", views.device, name="notifications-device"),
    path("notifications/test", views.test, name="notifications-test"),
    path("notifications/ready", views.ready, name="notifications-ready"),
    path("notifications/sessions/<uuid:session>", views.session, name="notifications-session"),
]
