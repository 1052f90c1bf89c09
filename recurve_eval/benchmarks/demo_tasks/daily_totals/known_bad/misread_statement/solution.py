from collections import Counter
from datetime import date, timedelta

EPOCH = date(1970, 1, 1)


def daily_totals(events, offset_minutes):
    days = Counter((timestamp + 60 * offset_minutes) // 86400 for timestamp, _ in events)
    return {(EPOCH + timedelta(days=day)).isoformat(): days[day] for day in sorted(days)}
