# SPDX-License-Identifier: BSD-3-Clause
"""Names parts of a program for clusterprof, and pauses its recording; read() opens what was recorded.

    import clusterprof

    with clusterprof.region("epoch", n=3):
        ...

    @clusterprof.region("load")
    def load(path): ...

    with clusterprof.paused():
        ...

Without clusterprof in front of the program all of this does nothing. Regions belong to the thread that enters
them, and nest. On a generator or coroutine function, the decorator covers the time in which its body runs, not the time
in which it is suspended. A `with` around `yield` or `await` also covers whatever else the thread does meanwhile.
"""
__all__ = ["active", "pause", "paused", "read", "region", "resume"]

_CO_GENERATOR, _CO_COROUTINE, _CO_ITERABLE_COROUTINE, _CO_ASYNC_GENERATOR = 0x20, 0x80, 0x100, 0x200


def _find():
    """The agent's functions (begin, end, pause, resume), or None."""
    try:
        # ctypes takes longer to import than looking whether there is anything to call.
        with open("/proc/self/maps", "rb") as maps:
            if b"/libclusterprof_agent.so" not in maps.read():
                return None
        import ctypes

        # Holding the GIL: letting it go would cost more than the calls, and let other threads in.
        library = ctypes.PyDLL(None)
        begin, end = library.clusterprof_region_begin_v1, library.clusterprof_region_end_v1
        begin.argtypes, end.argtypes = (ctypes.c_char_p, ctypes.c_int64), (ctypes.c_char_p,)
        found = begin, end, library.clusterprof_pause_v1, library.clusterprof_resume_v1
    except (AttributeError, ImportError, OSError):
        return None
    for function in found:
        function.restype = None
    return found


_found = _find()

#: Whether there is a recorder: False means that everything here does nothing.
active = _found is not None


if active:
    _begin, _end, pause, resume = _found
else:

    def _begin(name, n):
        """Does nothing."""

    def _end(name):
        """Does nothing."""

    def pause():
        """Stops recording all threads of this process until as many calls of resume()."""

    def resume():
        """Resumes recording."""


def _steps(name, n, running):
    """Runs a generator or coroutine, each of its steps in the region."""
    send, value = running.send, None
    while True:
        _begin(name, n)
        try:
            given = send(value)
        except StopIteration as end:
            return end.value
        finally:
            _end(name)
        try:
            value, send = (yield given), running.send
        except GeneratorExit:
            _begin(name, n)
            try:
                running.close()
            finally:
                _end(name)
            raise
        except BaseException as error:
            value, send = error, running.throw


class _Awaitable:
    __slots__ = ("_steps",)

    def __init__(self, steps):
        self._steps = steps

    def __await__(self):
        return self._steps


class region:
    """A context manager and decorator; one object may be entered any number of times, by any thread.

    n tells instances apart, such as the number of a time step: the report says which one took longest.
    """

    __slots__ = ("_name", "_n")

    def __init__(self, name, n=None):
        self._name = str(name).encode("utf-8", "replace").replace(b"\0", b"?")
        self._n = -1 if n is None else int(n)

    def __enter__(self):
        _begin(self._name, self._n)
        return self

    def __exit__(self, *exception):
        _end(self._name)
        return False

    def __call__(self, function):
        if not active:
            return function
        import functools

        name, n, begin, end = self._name, self._n, _begin, _end
        flags = getattr(getattr(function, "__code__", None), "co_flags", 0)
        if flags & _CO_ASYNC_GENERATOR:

            async def wrapper(*args, **kwargs):
                running = function(*args, **kwargs)
                step, value = running.asend, None
                try:
                    while True:
                        try:
                            given = await _Awaitable(_steps(name, n, step(value).__await__()))
                        except StopAsyncIteration:
                            return
                        try:
                            value, step = (yield given), running.asend
                        except GeneratorExit:
                            raise
                        except BaseException as error:
                            value, step = error, running.athrow
                finally:
                    await running.aclose()

        elif flags & _CO_COROUTINE:

            async def wrapper(*args, **kwargs):
                return await _Awaitable(_steps(name, n, function(*args, **kwargs)))

        elif flags & _CO_GENERATOR and not flags & _CO_ITERABLE_COROUTINE:

            def wrapper(*args, **kwargs):
                return (yield from _steps(name, n, function(*args, **kwargs)))

        else:

            def wrapper(*args, **kwargs):
                begin(name, n)
                try:
                    return function(*args, **kwargs)
                finally:
                    end(name)

        return functools.wraps(function)(wrapper)


class paused:
    """A context manager. Inside it, no thread of this process is recorded."""

    __slots__ = ()

    def __enter__(self):
        pause()
        return self

    def __exit__(self, *exception):
        resume()
        return False


def read(run):
    """Opens a recorded run, by its directory or file, as pandas data frames: see clusterprof.reader. Needs h5py and
    pandas."""
    from . import reader

    return reader.read(run)
