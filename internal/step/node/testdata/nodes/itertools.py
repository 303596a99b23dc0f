import itertools as it
from itertools import accumulate, chain, groupby, islice, pairwise, product, zip_longest

from agents.shared.agent_sdk import AgentRunner


def run(state):
    records = sorted(state["records"], key=lambda r: r["team"])
    groups = {team: [r["id"] for r in members] for team, members in groupby(records, key=lambda r: r["team"])}
    print(list(accumulate(r["amount"] for r in records)), list(islice(it.count(10, 5), 3)))
    print(list(pairwise("abcd")), ["".join(p) for p in product("ab", repeat=2)], list(zip_longest([1, 2], [3])))
    print(list(it.combinations(sorted(groups), 2)), list(it.takewhile(lambda x: x < 3, it.count())))
    result = AgentRunner.run("plain", {"groups": groups})
    return {"report": groups, "list": list(chain(result.output["rules_applied"], *groups.values()))}
