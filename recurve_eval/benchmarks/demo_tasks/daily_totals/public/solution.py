def daily_totals(events, offset_minutes):
    raise NotImplementedError
