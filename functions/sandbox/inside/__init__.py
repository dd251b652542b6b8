"""Code that runs inside the sandbox's own processes. A clean interpreter loads it, and nothing else
of Muster.
"""
