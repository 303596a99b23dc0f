from collections import ChainMap, Counter, OrderedDict, defaultdict, deque, namedtuple

from agents.shared.agent_sdk import AgentRunner

Record = namedtuple("Record", "id team amount", defaults=(0,))


def run(state):
    by_team, recent = defaultdict(list), deque(maxlen=2)
    for r in state["records"]:
        by_team[r["team"]].append(Record(r["id"], r["team"], r["amount"]))
        recent.appendleft(r["id"])
    words = Counter(state["text"].lower().split())
    tags = sum((Counter(r["tags"]) for r in state["records"]), Counter())
    print(words.most_common(2), tags, recent, Record("x", "y")._asdict(), ChainMap({"a": 1}, {"a": 2, "b": 3})["b"])
    order = OrderedDict((r["id"], 1) for r in state["records"])
    order.move_to_end(state["records"][0]["id"])
    AgentRunner.run("plain", {"teams": {k: len(v) for k, v in by_team.items()}})
    return {"report": {k: sum(x.amount for x in v) for k, v in by_team.items()}, "list": list(order)}
