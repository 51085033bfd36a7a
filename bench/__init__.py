"""The benchmarks: `python -m bench` measures and writes build/bench/results.json."""
