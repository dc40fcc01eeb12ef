"""What workers execute."""


def add(left, right):
    return left + right


def fail():
    raise ValueError("this task fails")
