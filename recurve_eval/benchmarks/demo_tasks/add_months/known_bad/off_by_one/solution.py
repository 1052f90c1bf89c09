import calendar
from datetime import date


def add_months(day, months):
    total = day.month + months
    year = day.year + total // 12
    month = total % 12 or 12
    return date(year, month, min(day.day, calendar.monthrange(year, month)[1]))


def schedule(start, count):
    return [add_months(start, n) for n in range(count)]
