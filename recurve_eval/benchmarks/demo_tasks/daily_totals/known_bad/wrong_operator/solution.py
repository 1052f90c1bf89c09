from datetime import date, timedelta

EPOCH = date(1970, 1, 1)


def daily_totals(events, offset_minutes):
    totals = {}
    for timestamp, amount in events:
        day = (timestamp + 60 * offset_minutes) // 86400
        totals[day] = amount
    return {(EPOCH + timedelta(days=day)).isoformat(): totals[day] for day in sorted(totals)}
