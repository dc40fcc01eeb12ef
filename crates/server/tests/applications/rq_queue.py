"""RQ: a queue of jobs, jobs after others, retries and scheduled jobs."""

import os
import time
from datetime import timedelta

from redis import Redis
from rq import Queue, Retry, SimpleWorker

import tasks

server = Redis(port=int(os.environ["PORT"]))
queue = Queue(connection=server)
jobs = [queue.enqueue(tasks.add, number, number) for number in range(50)]
failing = queue.enqueue(tasks.fail, retry=Retry(max=1))
after = queue.enqueue(tasks.add, 1, 2, depends_on=jobs[-1])
later = queue.enqueue_in(timedelta(seconds=1), tasks.add, 5, 5)
end = time.monotonic() + 30
while later.get_status(refresh=True).value != "finished" and time.monotonic() < end:
    SimpleWorker([queue], connection=server).work(burst=True, with_scheduler=True)
    time.sleep(0.5)
assert [job.return_value() for job in jobs] == [2 * number for number in range(50)]
assert after.return_value() == 3 and later.return_value() == 10
assert failing.get_status(refresh=True).value == "failed"
