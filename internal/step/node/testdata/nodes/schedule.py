import bisect
import copy
import heapq
import operator
from dataclasses import dataclass, field
from typing import Any

from agents.shared.agent_sdk import AgentRunner


@dataclass(order=True)
class Job:
    due: int
    payload: Any = field(compare=False)


def run(state):
    heap = []
    for r in state["records"]:
        heapq.heappush(heap, Job(r["amount"], r["id"]))
    order = [heapq.heappop(heap).payload for _ in range(len(heap))]
    limits = [5, 10, 20]
    grades = [bisect.bisect_left(limits, r["amount"]) for r in state["records"]]
    deep = copy.deepcopy(state["records"])
    deep[0]["tags"].append("changed")
    best = max(state["records"], key=operator.itemgetter("amount"))
    print(order, grades, state["records"][0]["tags"] != deep[0]["tags"], heapq.nlargest(2, (r["amount"] for r in deep)))
    while (n := len(order)) > 2:
        order.pop()
    first, *_, last = sorted(r["id"] for r in state["records"])
    AgentRunner.run("plain", {"order": order, "n": n})
    return {"list": [*order, first, last], "score": best["amount"] / 4}
