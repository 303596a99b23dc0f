import re

from agents.shared.agent_sdk import AgentRunner

LINE = re.compile(r"^(?P<time>\d\d:\d\d) (?P<level>[A-Z]+) (?P<service>[\w-]+): (?P<message>.*)$", re.MULTILINE)


def run(state):
    """Find the failing services in a log."""
    failing = [m.groupdict() for m in LINE.finditer(state["text"]) if m["level"] in ("ERROR", "FATAL")]
    masked = re.sub(r"\b[\w.]+@[\w.]+\b", lambda m: m[0][0] + "***", state["text"])
    result = AgentRunner.run("plain", {"failing": failing, "log": masked})
    codes = [int(c) for c in re.findall(r"code=(\d+)", state["text"])]
    print(re.split(r"[;,]\s*", "a; b,c"), re.fullmatch(r"\d{3}", "404") is not None, codes)
    return {"report": {"failing": failing, "codes": codes}, "list": [result.output["meta_insight"]]}
