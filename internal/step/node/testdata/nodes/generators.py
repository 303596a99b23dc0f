from agents.shared.agent_sdk import AgentRunner


def batches(items, size):
    batch = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def walk(tree, depth=0):
    for key, value in tree.items():
        yield depth, key
        if isinstance(value, dict):
            yield from walk(value, depth + 1)


def running():
    total = 0
    while True:
        value = yield total
        if value is None:
            return total
        total += value


def run(state):
    outputs = []
    for batch in batches((r["id"] for r in state["records"]), 2):
        result = AgentRunner.run("plain", {"batch": batch})
        outputs.extend(result.output["rules_applied"] * len(batch))
    total = running()
    next(total)
    print([total.send(r["amount"]) for r in state["records"]], list(walk({"a": {"b": {"c": 1}}, "d": 2})))
    return {"list": outputs, "score": sum(x * 0.5 for x in range(4))}
