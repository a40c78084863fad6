"""A command as a tool: one JSON object on stdin, the answer on stdout, 0 for success."""

import datetime
import json
import sys

asked = json.load(sys.stdin)
try:
    arrival, departure = (datetime.date.fromisoformat(asked[day]) for day in ("arrival", "departure"))
except ValueError as error:
    sys.exit(f"a day is written as 2027-06-01: {error}")
if departure <= arrival:
    sys.exit(f"the departure on {departure} is not after the arrival on {arrival}")
print((departure - arrival).days)
