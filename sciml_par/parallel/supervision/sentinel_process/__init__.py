"""The sentinel: a small program that watches a host's ranks from outside, and names the lost one.

A rank that is killed says nothing, and its launcher says little that is true: MPICH's kills the
others within milliseconds, names any of them, and after `os._exit(0)` calls the job a success. So
one process per host, in a session of its own that the launcher does not reach, holds a socket to
each rank. The kernel closes it when a rank is gone, in the order in which they go. A rank that
ends on purpose says so first; at any other end the sentinel says what is known, once, and has the
ranks that are left end the job. To come before the launcher it holds the rank's line to it open
as well.

The sentinels of several hosts report to that of rank 0, which alone writes. When a rank of one host
is lost, the launcher ends those of the others, by a signal or by an exit code, and to the sentinels
there that looks like a loss, too: on two hosts, under MPICH's launcher, a second rank was named in
5 of 18 runs without this connection, and in none of 20 with it. By the same connections hosts
notice that another one is gone (`peer.py`).

`sentinel_client.py` starts it as `python -I -S`: here is nothing but the standard library. It is
imported there by a name of its own, without the packages around it; hence the relative imports.
"""
