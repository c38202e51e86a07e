"""Quiet hours, by a person's own clock."""

from datetime import UTC, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones


@cache
def zones() -> frozenset[str]:
    """The names of time zones this machine knows."""
    return frozenset(available_timezones())


def quiet_until(now: datetime, start: time | None, end: time | None, zone: str) -> datetime | None:
    """When the quiet hours that `now` is in are over; None outside of them. They may go over midnight."""
    if start is None or end is None or start == end:
        return None
    here = now.astimezone(ZoneInfo(zone) if zone in zones() else UTC)
    # Yesterday's may still go on. Days are counted by the wall's clock, so a change of it in the night moves nothing.
    for day in (here.date() - timedelta(days=1), here.date()):
        begins = datetime.combine(day, start, here.tzinfo)
        ends = datetime.combine(day + timedelta(days=start > end), end, here.tzinfo)
        if begins <= here < ends:
            return ends.astimezone(UTC)
    return None
