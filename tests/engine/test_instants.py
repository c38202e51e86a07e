"""Instants as clients write them: RFC 3339 with an offset, and nothing else that Python would read."""

from datetime import UTC, datetime, timedelta

import pytest

from sessions_app.engine.instants import read_instant

HALF_PAST = datetime(2026, 1, 29, 21, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("2026-01-29T21:30:00Z", timedelta()),
        ("2026-01-29t21:30:00z", timedelta()),
        ("2026-01-29T21:30:00+00:00", timedelta()),
        ("2026-01-29T21:30:00-00:00", timedelta()),
        ("2026-01-29T22:30:00.25+01:00", timedelta(milliseconds=250)),
        ("2026-01-29T21:30:00.123456789Z", timedelta(microseconds=123456)),
        ("2026-01-30T05:15:00+07:45", timedelta()),
    ],
)
def test_an_instant_is_a_date_a_time_and_an_offset(text: str, after: timedelta) -> None:
    assert read_instant(text) == HALF_PAST + after


def test_the_first_and_the_last_of_all_instants_can_be_told_apart_from_others() -> None:
    assert read_instant("0001-01-01T00:00:00+23:59") < HALF_PAST < read_instant("9999-12-31T23:59:59.999999-23:59")


@pytest.mark.parametrize(
    "text",
    [
        "", "soon", "2026-01-29", "20260129T2130Z", "20260129T213000Z", "2026-W05-4T21:30:00Z", "2026-029T21:30:00Z",
        "2026-01-29 21:30:00Z", "2026-01-29T21:30:00", "2026-01-29T21:30Z", "2026-01-29T21Z", "2026-01-29T213000Z",
        "2026-01-29T21:30:00+01", "2026-01-29T21:30:00+0100", "2026-01-29T21:30:00+01:00:30", "2026-01-29T21:30:00,5Z",
        "2026-01-29T21:30:00.Z", "2026-01-29T24:00:00Z", "2026-01-29T21:60:00Z", "2026-01-29T21:30:60Z",
        "2026-02-30T21:30:00Z", "0000-01-01T00:00:00Z", "2026-01-29T21:30:00+24:00", "2026-01-29T21:30:00+01:60",
        "2026-01-29T21:30:00Z\n", " 2026-01-29T21:30:00Z", "٢٠٢٦-01-29T21:30:00Z", "2026-01-29x21:30:00Z",
    ],
)  # fmt: skip
def test_anything_else_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="RFC 3339"):
        read_instant(text)
