"""Names of Horovod's data service, which raise an error with the alternative."""

from sciml_par.horovod.common.refused import Refused

TfDataServiceConfig = Refused("TfDataServiceConfig")
tf_data_service = Refused("tf_data_service")
send_to_data_service = Refused("send_to_data_service")
compute_worker_fn = Refused("compute_worker_fn")
