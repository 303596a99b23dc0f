from datetime import date, datetime, timedelta, timezone

from agents.shared.agent_sdk import AgentRunner


def run(state):
    """Compute how long each record was open, in working days."""
    report = {}
    for record in state["records"]:
        opened = datetime.fromisoformat(record["opened"]).replace(tzinfo=timezone.utc)
        closed = opened + timedelta(days=record["amount"] % 7, hours=5, minutes=30)
        days = sum(1 for n in range((closed.date() - opened.date()).days) if (opened + timedelta(n)).weekday() < 5)
        report[record["id"]] = {"closed": closed.isoformat(), "days": days, "week": closed.strftime("%G-W%V")}
    first = min(date.fromisoformat(r["opened"][:10]) for r in state["records"])
    print(first.strftime("%A %d %B %Y"), datetime(2026, 3, 1) - datetime(2026, 2, 1), repr(first))
    AgentRunner.run("plain", {"since": str(first)})
    return {"report": report}
