from datetime import date, timedelta

EPOCH = date(1970, 1, 1)


def daily_totals(events, offset_minutes):
    totals = {}
    for timestamp, amount in events:
        day = EPOCH + timedelta(days=(timestamp + 60 * offset_minutes) // 86400)
        totals[day.isoformat()] = totals.get(day.isoformat(), 0) + amount
    return sorted(totals.items())
