"""Model providers behind one small protocol (`base`); only the worker loads them."""
