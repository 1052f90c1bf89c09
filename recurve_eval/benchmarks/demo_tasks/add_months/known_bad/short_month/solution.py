def add_months(day, months):
    year, month = divmod(12 * day.year + day.month - 1 + months, 12)
    return day.replace(year=year, month=month + 1)


def schedule(start, count):
    return [add_months(start, n) for n in range(count)]
