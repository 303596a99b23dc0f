from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Callable, ClassVar, Protocol, cast

from agents.shared.agent_sdk import AgentRunner


class Rule(ABC):
    registry: ClassVar[dict[str, type[Rule]]] = {}

    def __init_subclass__(cls, /, name: str, **kwargs):
        super().__init_subclass__(**kwargs)
        Rule.registry[name] = cls

    @abstractmethod
    def applies(self, record: dict) -> bool: ...


class Large(Rule, name="large"):
    def applies(self, record):
        return record["amount"] > 10


class Tagged(Rule, name="tagged"):
    def __init__(self, tag: str = "db"):
        self.tag = tag

    def applies(self, record):
        return self.tag in record["tags"]


class Scorer(Protocol):
    def __call__(self, record: dict) -> float: ...


def weight(by: float) -> Scorer:
    return cast(Scorer, lambda record: record["amount"] * by)


def run(state: dict) -> dict:
    rules = {name: cls() for name, cls in sorted(Rule.registry.items())}
    hits = {r["id"]: [name for name, rule in rules.items() if rule.applies(r)] for r in state["records"]}
    score: Callable[[dict], float] = weight(0.5)
    try:
        Rule()
    except TypeError as e:
        print(type(e).__name__)
    print(hits, [score(r) for r in state["records"]])
    AgentRunner.run("plain", {"hits": hits})
    return {"report": hits, "score": max(map(score, state["records"]))}
