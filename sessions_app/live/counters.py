"""What the live path counts, as plain numbers of this process."""

from dataclasses import asdict, dataclass


@dataclass(slots=True)
class Counters:
    """Missed and repaired gaps, dropped clients, and which way frames left. They only grow, until the process ends."""

    clients_joined: int = 0
    clients_dropped_slow: int = 0
    clients_dropped_access: int = 0
    gaps_missed: int = 0
    """Times the bell's events did not continue the sequence, or did not come at all."""
    gaps_repaired: int = 0
    """Events that were read from the log because the bell had not brought them."""
    delta_gaps_missed: int = 0
    delta_gaps_repaired: int = 0
    deltas_merged: int = 0
    """Deltas withheld from a client that was behind, and sent as part of a later one."""
    bell_lost: int = 0
    bell_connected: int = 0
    direct_sends: int = 0
    buffered_sends: int = 0

    def json(self) -> dict[str, int]:
        return asdict(self)


counters = Counters()
"""This process's counters."""
