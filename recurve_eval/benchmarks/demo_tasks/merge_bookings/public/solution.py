def merge_bookings(bookings):
    raise NotImplementedError
