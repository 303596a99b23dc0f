import enum
from dataclasses import dataclass
from enum import Enum, IntEnum, auto

from agents.shared.agent_sdk import AgentRunner


class Severity(IntEnum):
    LOW = 1
    HIGH = 2

    @classmethod
    def of(cls, amount):
        return cls.HIGH if amount > 10 else cls.LOW


class Team(str, Enum):
    CORE = "core"
    EDGE = "edge"
    OTHER = "other"

    @classmethod
    def _missing_(cls, value):
        return cls.OTHER


class Flags(enum.Flag):
    READ = auto()
    WRITE = auto()


@dataclass
class Item:
    team: Team
    severity: Severity


def run(state):
    items = [Item(Team(r["team"]), Severity.of(r["amount"])) for r in state["records"]]
    print(items, [s.name for s in Severity], Flags.READ | Flags.WRITE, Severity.HIGH > Severity.LOW)
    AgentRunner.run("plain", {"teams": [i.team for i in items]})
    return {"report": [{"team": i.team.value, "severity": i.severity} for i in items]}
