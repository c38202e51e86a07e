#!/usr/bin/env python
"""The same commands as `steerweb`, for those who look for a manage.py."""

from steerweb.__main__ import main

if __name__ == "__main__":
    main()
