"""The demo's texts, one JSON object per line: `id`, `text` and `expect`, the answer a careful reader would give."""
