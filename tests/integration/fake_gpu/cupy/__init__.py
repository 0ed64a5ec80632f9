"""A fake of CuPy with one GPU, for processes that benchmarks/gpu_check.py starts.

"GPU memory" is the host's. A stream is a thread that does what was enqueued, in order, while the
caller goes on: so what is asynchronous on a GPU is asynchronous here.
"""

__version__ = "0.fake"
