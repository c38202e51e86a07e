"""Sealing: what is stored of a provider's key is of no use without the server's own secret.

Fernet (AES-128-CBC with an HMAC) under a key that HKDF derives from `STEERWEB_SECRET_KEY`, so no second secret has to
be kept. Who changes that secret loses the stored keys: they
can be opened no more, count as absent, and are entered again.
"""

import base64
from functools import lru_cache
from typing import Final

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

_PURPOSE: Final = b"steerweb: keys of model providers, 1"
_KEY_BYTES: Final = 32


def seal(text: str) -> bytes:
    """The text, encrypted; never the same twice."""
    return _box(settings.SECRET_KEY).encrypt(text.encode())


def unseal(sealed: bytes) -> str | None:
    """The text; None where it was sealed under another secret."""
    try:
        return _box(settings.SECRET_KEY).decrypt(sealed).decode()
    except InvalidToken:
        return None


@lru_cache(maxsize=2)
def _box(secret: str) -> Fernet:
    derived = HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=_PURPOSE).derive(secret.encode())
    return Fernet(base64.urlsafe_b64encode(derived))
