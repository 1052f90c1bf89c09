#!/usr/bin/env python3
"""The verb ``analyze`` as a script: pull a run's rows from MLflow and write its summary."""

import sys

from recurve_eval.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["analyze", *sys.argv[1:]]))
