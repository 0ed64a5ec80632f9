"""The sentinel: a small program that watches a host's ranks from outside, and names a lost one.

A killed rank reports nothing, and launchers report it wrongly: MPICH's kills the others within
milliseconds, names any of them, and after `os._exit(0)` calls the job a success. So one process per
host holds a socket to each rank, in a separate session that the launcher does not reach. The kernel
closes the sockets in the order in which ranks end. A rank that ends on purpose reports it first; at
any other end the sentinel prints the cause once, and lets the other ranks end the job. It also
holds the rank's connection to the launcher open, which would otherwise act first.

The sentinels of several hosts report to that of rank 0, which alone writes. When a rank of one host
is lost, the launcher ends those of the others, which look lost to their sentinels: on two hosts,
under MPICH's launcher, a second rank was named in 5 of 18 runs without this connection, and in none
of 20 with it. By the same connections hosts notice that another one is gone (`peer.py`).

`sentinel_client.py` starts it as `python -I -S`, so it uses only the standard library. Its imports
are relative because it runs without the packages around it.
"""
