"""Celery: groups, chords, chains, retries and delays, by a worker of its own."""

import subprocess
import sys

from celery import chord, group

from celery_app import add, third_time, total

SECONDS = 40
worker = subprocess.Popen(
    [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "-c", "2", "-l", "warning"],
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)
try:
    sums = group(add.s(number, number) for number in range(20))().get(timeout=SECONDS)
    assert sums == [2 * number for number in range(20)]
    ones = [add.s(number, 1) for number in range(10)]
    assert chord(ones)(total.s()).get(timeout=SECONDS) == 55
    assert third_time.delay().get(timeout=SECONDS) == "done"
    assert (add.s(1, 2) | add.s(10)).delay().get(timeout=SECONDS) == 13
    assert add.apply_async((1, 1), countdown=1).get(timeout=SECONDS) == 2
finally:
    worker.terminate()
    worker.wait(20)
