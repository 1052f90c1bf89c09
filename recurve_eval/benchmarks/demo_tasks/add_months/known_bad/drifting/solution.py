import calendar
from datetime import date


def add_months(day, months):
    year, month = divmod(12 * day.year + day.month - 1 + months, 12)
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def schedule(start, count):
    due = [start] if count else []
    while len(due) < count:
        due.append(add_months(due[-1], 1))
    return due
