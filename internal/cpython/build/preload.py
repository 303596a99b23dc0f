# Runs once, when the interpreter is prepared. It imports what node code usually needs
# and prints the addresses that the host needs to call serve() later.
import abc, base64, bisect, collections, collections.abc, contextlib, copy, csv, dataclasses, datetime, decimal, enum
import fractions, functools, hashlib, heapq, io, itertools, json, logging, math, operator, random, re, select, statistics
import string, sys, textwrap, time, traceback, types, typing, unicodedata, uuid
import gc


def sleep(seconds):
    """Advance the clock. The original needs a function of WASI that wazero does not have."""
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    select.select([], [], [], seconds)


time.sleep = sleep
host = types.ModuleType("espalier_host")
sys.modules["espalier_host"] = host
exec(compile(HOST, "<host>", "exec"), host.__dict__)


def serve():
    random.seed()
    host.main()


arguments = ()
gc.collect()
gc.freeze()
print(id(serve), id(arguments), id(type(serve)), flush=True)
time.time()  # the builder copies the memory during this call, which does not release the interpreter lock
