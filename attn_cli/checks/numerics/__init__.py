"""Numbers under stress: where NaN and inf come from, what saturates, what a precision loses."""
