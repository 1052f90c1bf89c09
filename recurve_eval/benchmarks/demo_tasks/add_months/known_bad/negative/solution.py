import calendar
from datetime import date


def add_months(day, months):
    year = day.year + int((day.month - 1 + months) / 12)
    month = abs(day.month - 1 + months) % 12
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def schedule(start, count):
    return [add_months(start, n) for n in range(count)]
