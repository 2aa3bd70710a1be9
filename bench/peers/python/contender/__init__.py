"""The contract of a contender, for Python: a peer has `refusal`, `connect` and `section`, and its main calls `serve`.

`bench/peers/README.md` describes the lines that a contender reads and writes.
"""
