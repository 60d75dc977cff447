"""Speed against peers, each a ratio measured in one run: `python -m benchmarks`."""
