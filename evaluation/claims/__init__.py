"""Does the benchmark measure what it says? Measurements that can contradict it, and its claims."""
