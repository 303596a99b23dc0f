from dataclasses import asdict, astuple, dataclass, field, replace

from agents.shared.agent_sdk import AgentRunner


@dataclass(frozen=True, order=True)
class Finding:
    severity: int
    id: str = field(compare=False)
    tags: tuple = field(default_factory=tuple, compare=False)

    @property
    def label(self) -> str:
        return f"{self.id}/{self.severity}"


def run(state):
    findings = sorted((Finding(r["amount"] % 5, r["id"], tuple(r["tags"])) for r in state["records"]), reverse=True)
    top = replace(findings[0], severity=9)
    print(top, [f.label for f in findings], astuple(findings[-1]))
    try:
        top.severity = 1
    except AttributeError as e:
        print(type(e).__name__, e)
    AgentRunner.run("plain", asdict(top))
    return {"report": [asdict(f) for f in findings]}
