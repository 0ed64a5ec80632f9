"""The collectives on tensors, a file each.

Each works on eager tensors, in `tf.function`, and in `tf.function(jit_compile=True)` with its
loops and branches; and each can be differentiated, any number of times. The gradient is the
adjoint: with L = Σ_r L_r, the sum over the ranks' losses, rank s receives ∂L/∂x_s.

Tensors travel from where they are: from a GPU's memory by NCCL, from the host's by MPI. All take
the three options

name : how messages and the timeline call it; the same on every rank.
communicator : the ranks that take part; all by default.
device : "/CPU:0" or "/GPU:0", to have them carried from there (host memory, by MPI; the GPU's, by
    NCCL) wherever they are; the same on every rank.

The files are in a folder of their own, so that no module of the package has the name of a function,
whose place it would take where it is imported first.
"""
