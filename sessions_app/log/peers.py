"""How a connection to PostgreSQL finds out that nobody is at its other end: in about 10 s, not the kernel's hours."""

from typing import Final

NOTICE_DEAD_PEERS: Final = {
    "connect_timeout": 3,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 2,
    "tcp_user_timeout": 5000,
}
