"""The grading runner: pure standard library, Python 3.9 or later, nothing of recurve_eval.

Started as ``python -I -S -B <this directory> <config JSON>``; see :mod:`runner.server`.
"""
