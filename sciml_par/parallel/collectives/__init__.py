"""The collectives on tensors.

They work on eager tensors, in `tf.function`, and in `tf.function(jit_compile=True)` with its loops
and branches, and can be differentiated any number of times. The gradient is the adjoint: with
L = Σ_r L_r, the sum over the ranks' losses, rank s receives ∂L/∂x_s. NCCL carries tensors in a
GPU's memory, MPI those in host memory.
"""
