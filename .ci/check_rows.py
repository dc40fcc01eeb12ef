"""Fails unless a report of `nearfield-bench bench --json` is complete and has credible rows.

Usage: check_rows.py FILE PEER ...
"""

import json
import sys

path, *peers = sys.argv[1:]
with open(path) as file:
    report = json.load(file)
assert report["complete"], "the report is not complete"
assert not report["failed"], f"failed: {report['failed']}"
rates = {row["peer"]: row["rate_mops"] for row in report["rows"]}
for peer in peers:
    assert rates.get(peer, 0) > 0, f"no rate of {peer} in {rates}"
print(f"rates in M/s: {rates}")
