"""Prints the batches of every layout as JSON of hexadecimal bytes: tests/fixtures/engine-events.json."""

import json

from engine_events import LAYOUTS, payloads

print(json.dumps({layout: [payload.hex() for payload in payloads(layout)] for layout in LAYOUTS}, indent=1))
