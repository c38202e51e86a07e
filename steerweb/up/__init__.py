"""`steerweb up`: everything on one machine. It stays light: Django runs only in the children it starts."""
