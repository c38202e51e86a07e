"""Every HTTP door of the project."""

from django.contrib import admin
from django.urls import include, path

from sessions_app.api.urls import urlpatterns as api_urls
from sessions_app.keys.urls import urlpatterns as keys_urls
from sessions_app.people.urls import urlpatterns as people_urls
from sessions_app.push.urls import urlpatterns as push_urls

urlpatterns = [
    path("admin/", admin.site.urls),
    *api_urls,
    *people_urls,
    *keys_urls,
    *push_urls,
    path("", include("sessions_app.urls")),
]
