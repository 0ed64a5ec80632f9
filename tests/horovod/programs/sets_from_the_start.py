"""A graph built before `init`, and process sets given to `init`, the first time wrongly."""

import tensorflow.compat.v1 as tf

import sciml_par.horovod.tensorflow as hvd

tf.disable_v2_behavior()

w = tf.get_variable("w", initializer=[0.0], use_resource=True)
old_style = tf.get_variable("v", initializer=[[1.0]], use_resource=False)
start = hvd.broadcast_global_variables(1)
hook = hvd.BroadcastGlobalVariablesHook(1)
hook.begin()

assert not hvd.is_initialized()
try:
    hvd.size()
except ValueError as error:
    assert "init()" in str(error)
else:
    raise AssertionError("there were ranks before init")

for wrong in ([hvd.ProcessSet([1]), hvd.ProcessSet([1])], [hvd.ProcessSet([1, 0])], [[5]]):
    try:
        hvd.init(process_sets=wrong)
    except ValueError as error:
        assert "registered already" in str(error) or "different ranks" in str(error)
    else:
        raise AssertionError(f"init took the process sets {wrong}")
    assert not hvd.is_initialized()
    assert all(each.process_set_id is None for each in wrong if isinstance(each, hvd.ProcessSet))

first, second = hvd.ProcessSet([0]), hvd.ProcessSet([1])
hvd.init(process_sets=[second, first])
assert (second.process_set_id, first.process_set_id) == (1, 2)
assert hvd.get_process_set_ids_and_ranks() == {0: [0, 1], 1: [1], 2: [0]}

own = (first, second)[hvd.rank()]
alone = hvd.allreduce(w, process_set=own)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for run in (lambda: session.run(start), lambda: hook.after_create_session(session, None)):
        w.load([float(hvd.rank())], session)
        session.run(old_style.assign([[float(hvd.rank())]]))
        assert session.run(alone)[0] == hvd.rank()
        run()
        assert session.run(w)[0] == session.run(old_style)[0, 0] == 1.0
