"""Users of a training machine and their containers: the `tank` command and the way in over ssh.

Installed at /usr/local/lib/tank. Standard library only: it runs with the machine's own Python,
before and without any virtual environment.
"""
