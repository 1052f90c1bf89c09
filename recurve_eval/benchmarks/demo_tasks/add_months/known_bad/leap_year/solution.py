from datetime import date

DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def add_months(day, months):
    year, month = divmod(12 * day.year + day.month - 1 + months, 12)
    longest = 29 if month == 1 and year % 4 == 0 else DAYS[month]
    return date(year, month + 1, min(day.day, longest))


def schedule(start, count):
    return [add_months(start, n) for n in range(count)]
