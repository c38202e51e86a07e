"""The addresses of the page with the keys."""

from django.urls import path

from sessions_app.keys import views

urlpatterns = [
    path("models", views.models_page, name="models"),
    path("models/<str:family>", views.key_set, name="key-set"),
    path("models/<str:family>/test", views.key_test, name="key-test"),
    path("models/<str:family>/remove", views.key_remove, name="key-remove"),
]
