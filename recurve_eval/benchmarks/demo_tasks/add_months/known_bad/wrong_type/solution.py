import calendar
from datetime import date


def add_months(day, months):
    year, month = divmod(12 * day.year + day.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise ValueError(f"year {year} is outside the calendar")
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def schedule(start, count):
    for n in range(count):
        yield add_months(start, n)
