"""Tasks of Celery, with the server as broker and for results."""

import os

from celery import Celery

url = f"redis://localhost:{os.environ['PORT']}"
app = Celery("celery_app", broker=f"{url}/1", backend=f"{url}/2")


@app.task
def add(left, right):
    return left + right


@app.task
def total(numbers):
    return sum(numbers)


@app.task(bind=True, max_retries=2, default_retry_delay=0)
def third_time(self):
    if self.request.retries < 2:
        raise self.retry()
    return "done"
