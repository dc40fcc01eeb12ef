"""Huey: its three kinds of queues on Redis, with results and delays."""

import os

from huey import PriorityRedisHuey, RedisExpireHuey, RedisHuey

for kind in (RedisHuey, PriorityRedisHuey, RedisExpireHuey):
    huey = kind(kind.__name__, port=int(os.environ["PORT"]))

    @huey.task(retries=1)
    def add(left, right):
        return left + right

    consumer = huey.create_consumer(workers=2, periodic=False, check_worker_health=False)
    consumer.start()
    results = [add(number, number) for number in range(30)]
    sums = [result.get(blocking=True, timeout=20) for result in results]
    assert sums == [2 * number for number in range(30)]
    assert add.schedule((1, 2), delay=1).get(blocking=True, timeout=20) == 3
    consumer.stop()
# Consumers' threads may wait for messages still.
os._exit(0)
