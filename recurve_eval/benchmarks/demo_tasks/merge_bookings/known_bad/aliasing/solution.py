def merge_bookings(bookings):
    bookings.sort()
    merged = []
    for booking in bookings:
        if merged and booking[0] <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], booking[1])
        else:
            merged.append(booking)
    return merged
