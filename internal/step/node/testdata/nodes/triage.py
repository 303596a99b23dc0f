import datetime as dt
import hashlib
import logging
import re
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import groupby

from agents.shared.agent_sdk import AgentRunner

log = logging.getLogger("triage")


@dataclass(frozen=True)
class Entry:
    at: dt.time
    level: str
    service: str
    message: str

    @property
    def key(self):
        return hashlib.sha1(re.sub(r"\d+", "#", self.message).encode()).hexdigest()[:8]


class Report:
    def __init__(self, entries):
        self.entries = list(entries)

    @cached_property
    def levels(self):
        return Counter(e.level for e in self.entries)

    def worst(self):
        match self.levels:
            case {"FATAL": int()}:
                return "page"
            case {"ERROR": n} if n >= 2:
                return "ticket"
            case _:
                return "ignore"


def entries(text):
    for line in text.splitlines():
        if m := re.match(r"(\d\d):(\d\d) ([A-Z]+) ([\w-]+): (.*)", line):
            hour, minute, *rest = m.groups()
            yield Entry(dt.time(int(hour), int(minute)), *rest)


def run(state):
    report = Report(entries(state["text"]))
    by = defaultdict(set)
    for service, group in groupby(sorted(report.entries, key=lambda e: e.service), key=lambda e: e.service):
        by[service] |= {e.key for e in group}
    result = AgentRunner.run("plain", {"worst": report.worst(), "services": {k: sorted(v) for k, v in by.items()}})
    log.warning("worst: %s", report.worst())
    print(dict(report.levels), report.worst(), asdict(report.entries[0]))
    return {"report": {k: sorted(v) for k, v in by.items()}, "list": result.output["rules_applied"]}
