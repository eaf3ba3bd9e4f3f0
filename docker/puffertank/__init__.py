"""What the tasks of `tasks.py` are made of: images, moving them between machines, releases.

Part of the repository, not of the installed library.
"""
