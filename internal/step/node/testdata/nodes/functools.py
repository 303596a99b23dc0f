import functools
from functools import lru_cache, partial, reduce, wraps

from agents.shared.agent_sdk import AgentRunner

calls = []


def traced(label):
    def decorate(fn):
        @wraps(fn)
        def wrapper(*args, **kwargs):
            calls.append(f"{label}:{fn.__name__}{args}")
            return fn(*args, **kwargs)
        return wrapper
    return decorate


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


@traced("step")
def scale(value, by=2):
    """Scale a value."""
    return value * by


@functools.singledispatch
def show(value):
    return f"? {value}"


@show.register
def _(value: int):
    return f"int {value}"


@show.register(list)
def _(value):
    return f"list of {len(value)}"


def run(state):
    total = reduce(lambda a, r: a + r["amount"], state["records"], 0)
    triple = partial(scale, by=3)
    print(triple(total), fib(80), fib.cache_info().hits, scale.__doc__, [show(v) for v in (1, [1], "x")], calls)
    ordered = sorted(state["records"], key=functools.cmp_to_key(lambda a, b: b["amount"] - a["amount"]))
    AgentRunner.run("plain", {"total": total})
    return {"list": [r["id"] for r in ordered], "score": float(total)}
