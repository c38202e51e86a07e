"""The key by which push services know this installation (VAPID, RFC 8292).

It is derived from the secret key, so every process has the same one and nothing is stored. Another secret key makes
another one, but that also signs every device out, and a subscription goes with its device.
"""

from base64 import urlsafe_b64encode
from functools import lru_cache
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of the curve P-256."""


@lru_cache(maxsize=2)
def private_key(secret: str) -> ec.EllipticCurvePrivateKey:
    """The key that belongs to a secret key; 48 bytes leave no bias worth the name."""
    made = HKDF(SHA256(), 48, None, b"steerweb web push").derive(secret.encode())
    return ec.derive_private_key(int.from_bytes(made) % (_ORDER - 1) + 1, ec.SECP256R1())


def public_key(secret: str) -> str:
    """What a browser subscribes with: the point, uncompressed, in base64url."""
    point = private_key(secret).public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return urlsafe_b64encode(point).decode().rstrip("=")
