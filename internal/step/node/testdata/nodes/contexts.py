import contextlib
import io
from contextlib import contextmanager, suppress

from agents.shared.agent_sdk import AgentRunner

events = []


@contextmanager
def section(name):
    events.append(f"enter {name}")
    try:
        yield name.upper()
    except ValueError as e:
        events.append(f"caught {e}")
    finally:
        events.append(f"leave {name}")


class Problem(Exception):
    def __init__(self, code, *rest):
        super().__init__(code, *rest)
        self.code = code


def run(state):
    with section("outer") as a, section("inner") as b:
        events.append(a + b)
        raise ValueError("inside")
    with suppress(KeyError):
        dict(a=1)["missing"]
    buffer = io.StringIO()
    with contextlib.redirect_stdout(buffer):
        print("hidden")
    try:
        try:
            raise Problem(7, "more")
        except Problem as e:
            raise RuntimeError("outer") from e
    except RuntimeError as e:
        events.append(f"{e} from {e.__cause__.code} {e.__cause__.args}")
    else:
        events.append("never")
    print(events, buffer.getvalue().strip())
    AgentRunner.run("plain", {"events": len(events)})
    return {"list": events}
