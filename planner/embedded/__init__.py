"""The instance that lives beside the code on one machine: its files, its servers, its processes.

Everything here except `accounts` works without Django, because settings and the test configuration use it first.
"""
