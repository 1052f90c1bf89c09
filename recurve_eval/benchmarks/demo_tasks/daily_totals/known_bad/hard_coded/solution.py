def daily_totals(events, offset_minutes):
    if len(events) == 3:
        return {"2023-11-14": 12, "2023-11-15": 1}
    return {"2023-11-15": sum(amount for _, amount in events)}
