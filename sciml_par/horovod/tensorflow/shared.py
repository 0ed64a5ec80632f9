"""What this package shows of `sciml_par.horovod.common`, which stubs cannot reach."""

from sciml_par.horovod.common.exceptions import HorovodInternalError as HorovodInternalError
from sciml_par.horovod.common.exceptions import HostsUpdatedInterrupt as HostsUpdatedInterrupt
from sciml_par.horovod.common.process_sets import ProcessSet as ProcessSet
from sciml_par.horovod.common.process_sets import add_process_set as add_process_set
from sciml_par.horovod.common.process_sets import global_process_set as global_process_set
from sciml_par.horovod.common.process_sets import remove_process_set as remove_process_set
