from agents.shared.agent_sdk import AgentRunner


class Ledger:
    """Sums by key, with operators."""

    count = 0

    def __init__(self, **sums):
        self._sums = dict(sums)
        type(self).count += 1

    def __add__(self, other):
        keys = sorted(self._sums.keys() | other._sums.keys())
        return type(self)(**{k: self[k] + other[k] for k in keys})

    def __getitem__(self, key):
        return self._sums.get(key, 0)

    def __iter__(self):
        return iter(self._sums.items())

    def __repr__(self):
        return f"{type(self).__name__}({self._sums})"

    @classmethod
    def of(cls, records):
        return sum((cls(**{r["team"]: r["amount"]}) for r in records), cls())

    @staticmethod
    def share(part, whole):
        return round(part / whole, 3) if whole else 0.0


class Audited(Ledger):
    def __getitem__(self, key):
        return super().__getitem__(key) + 0.0


def run(state):
    ledger, audited = Ledger.of(state["records"]), Audited.of(state["records"])
    total = sum(v for _, v in ledger)
    print(ledger, audited, Ledger.count, Audited.count, isinstance(audited, Ledger))
    AgentRunner.run("plain", dict(ledger))
    return {"report": {team: Ledger.share(v, total) for team, v in ledger}, "score": float(total)}
