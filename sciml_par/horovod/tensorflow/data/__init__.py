"""Names of Horovod's data service, which raise an error with the alternative."""
