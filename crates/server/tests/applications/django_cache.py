"""django-redis: Django's cache, with expiry, patterns, locks and versions."""

import os

import django
from django.conf import settings

settings.configure(
    CACHES={
        "default": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": f"redis://localhost:{os.environ['PORT']}/3",
        }
    }
)
django.setup()

from django.core.cache import cache  # noqa: E402

cache.clear()
cache.set("a", 1, 30)
assert cache.get("a") == 1 and 25 < cache.ttl("a") <= 30
cache.set_many({"x1": 1, "x2": 2})
assert cache.get_many(["x1", "x2"]) == {"x1": 1, "x2": 2}
assert cache.incr("a") == 2 and cache.add("a", 5) is False
assert sorted(cache.keys("x*")) == ["x1", "x2"] and cache.delete_pattern("x*") == 2
assert cache.touch("a", 100) and cache.persist("a") and cache.ttl("a") is None
with cache.lock("lock", timeout=5):
    assert not cache.lock("lock", timeout=5).acquire(blocking=False)
assert cache.get_or_set("n", lambda: 7) == 7
cache.set("v", 1, version=2)
assert cache.get("v") is None and cache.get("v", version=2) == 1
