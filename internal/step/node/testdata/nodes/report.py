import string
import textwrap
from collections import Counter
from string import Template

from agents.shared.agent_sdk import AgentRunner


def table(rows, *, columns):
    widths = [max(len(str(r[c])) for r in [*rows, dict(zip(columns, columns))]) for c in columns]
    lines = ["  ".join(c.upper().ljust(w) for c, w in zip(columns, widths)).rstrip()]
    lines += ["  ".join(str(r[c]).ljust(w) for c, w in zip(columns, widths)).rstrip() for r in rows]
    return "\n".join(lines)


def run(state):
    text = table(state["records"], columns=("id", "team", "amount"))
    result = AgentRunner.run("plain", {"table": text})
    summary = Template("$n records, $insight").substitute(n=len(state["records"]), insight=result.output["meta_insight"])
    letters = Counter(c for c in state["text"].lower() if c in string.ascii_lowercase)
    print(textwrap.fill(state["text"], width=40, subsequent_indent="  "))
    print(textwrap.dedent("""\
        a
          b
        """), end="")
    print(textwrap.shorten(state["text"], 30), letters.most_common(3), "%-8s|%05.1f|%+d" % ("left", 3.14159, 5))
    return {"list": [text, summary]}
