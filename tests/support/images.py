"""A small real picture for tests."""

import base64
from typing import Final

PNG: Final = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEUlEQVR4nGPQqDiBFTEMLQkAAtVaAcSRe60AAAAASUVORK5CYII="
)
"""Eight by eight points."""
