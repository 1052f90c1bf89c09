from datetime import timedelta


def add_months(day, months):
    return day + timedelta(days=30 * months)


def schedule(start, count):
    return [add_months(start, n) for n in range(count)]
