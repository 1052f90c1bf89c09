from datetime import datetime, timezone


def daily_totals(events, offset_minutes):
    totals = {}
    for timestamp, amount in sorted(events):
        day = datetime.fromtimestamp(timestamp, timezone.utc).date().isoformat()
        totals[day] = totals.get(day, 0) + amount
    return totals
