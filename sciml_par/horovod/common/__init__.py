"""The names that Horovod shares between frameworks: ranks, process sets, exceptions."""
