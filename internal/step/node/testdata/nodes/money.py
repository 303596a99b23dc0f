import math
import statistics
from decimal import ROUND_HALF_UP, Decimal, getcontext
from fractions import Fraction

from agents.shared.agent_sdk import AgentRunner


def run(state):
    getcontext().prec = 12
    amounts = [Decimal(r["amount"]) * Decimal("1.1") for r in state["records"]]
    total = sum(amounts, Decimal(0)).quantize(Decimal("0.01"), rounding=ROUND_HALF_UP)
    values = [r["amount"] for r in state["records"]]
    print(total, statistics.mean(values), statistics.median(values), round(statistics.pstdev(values), 6), Fraction(3, 9))
    print(math.isclose(0.1 + 0.2, 0.3), math.comb(10, 3), 10 ** 30, 7 // -2, -7 % 3, round(2.5), 1e16, 0.1 + 0.2)
    print(f"{1234567.891:,.2f} {0.256:.1%} {255:#x} {'x':>5}|{total!s:*^12}|{math.pi:.4g}")
    AgentRunner.run("plain", {"total": str(total)})
    return {"score": float(total), "report": {"mean": statistics.fmean(values), "sum": math.fsum(values)}}
