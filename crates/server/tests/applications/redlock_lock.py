"""redlock-py: a lock by one server, that ends by itself."""

import os
import time

from redlock import Redlock

locks = Redlock([{"host": "localhost", "port": int(os.environ["PORT"]), "db": 4}], retry_count=1)
first = locks.lock("resource", 1000)
assert first and not locks.lock("resource", 1000)
locks.unlock(first)
assert locks.lock("resource", 300)
time.sleep(0.4)
assert locks.lock("resource", 1000)
