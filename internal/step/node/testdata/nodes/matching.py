from agents.shared.agent_sdk import AgentRunner


def classify(record):
    match record:
        case {"team": "core", "amount": int(n)} if n > 10:
            return f"large core {n}"
        case {"tags": [first, *rest], "team": ("core" | "edge") as team}:
            return f"{team}: {first} and {len(rest)} more"
        case {"tags": []}:
            return "untagged"
        case _:
            return "other"


def point(value):
    match value:
        case 0 | 0.0:
            return "zero"
        case -1:
            return "minus one"
        case str() as text:
            return text.upper()
        case (x, y):
            return x + y
        case None | True:
            return "constant"


def run(state):
    kinds = [classify(r) for r in state["records"]]
    print(kinds, [point(v) for v in (0, -1, "a", (1, 2), None, 3.5)])
    result = AgentRunner.run("plain", {"kinds": kinds})
    match result.output:
        case {"analysis_data": {"n": n}, "meta_insight": insight}:
            return {"score": n, "list": [insight, *kinds]}
    return {"list": ["no match"]}
