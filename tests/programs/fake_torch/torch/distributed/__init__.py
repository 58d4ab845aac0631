from .distributed_c10d import all_reduce, barrier, init_process_group  # noqa: F401
