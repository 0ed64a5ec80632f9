"""What Horovod's modules for the various frameworks share: ranks, process sets, exceptions."""
