"""What this package shows of `sciml_par.horovod.common`, which stubs cannot reach."""

from sciml_par.horovod.common.arguments import reduction as handle_average_backwards_compatibility
from sciml_par.horovod.common.exceptions import HorovodInternalError as HorovodInternalError
from sciml_par.horovod.common.exceptions import HostsUpdatedInterrupt as HostsUpdatedInterrupt
from sciml_par.horovod.common.process_sets import ProcessSet as ProcessSet
from sciml_par.horovod.common.process_sets import add_process_set as add_process_set
from sciml_par.horovod.common.process_sets import (
    get_process_set_ids_and_ranks as get_process_set_ids_and_ranks,
)
from sciml_par.horovod.common.process_sets import global_process_set as global_process_set
from sciml_par.horovod.common.process_sets import remove_process_set as remove_process_set
from sciml_par.horovod.common.util import check_extension as check_extension
from sciml_par.horovod.common.util import gpu_available as gpu_available
from sciml_par.horovod.common.util import num_rank_is_power_2 as check_num_rank_power_of_2
from sciml_par.horovod.common.util import split_list as split_list

__all__ = [
    "HorovodInternalError",
    "HostsUpdatedInterrupt",
    "ProcessSet",
    "add_process_set",
    "check_extension",
    "check_num_rank_power_of_2",
    "get_process_set_ids_and_ranks",
    "global_process_set",
    "gpu_available",
    "handle_average_backwards_compatibility",
    "remove_process_set",
    "split_list",
]
