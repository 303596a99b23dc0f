# The other end of child.go: runs the code of a workflow and asks for agents
# over its standard input and output, in lines of JSON.
import io, json, sys, traceback, types

_in, _out = sys.stdin, sys.stdout
sys.stdin, sys.stdout = io.StringIO(), io.StringIO()


def _say(**message):
    message["printed"] = sys.stdout.getvalue()
    sys.stdout.seek(0)
    sys.stdout.truncate()
    _out.write(json.dumps(message) + "\n")
    _out.flush()


def _call(agent, workload):
    _say(call=agent, workload=workload)
    line = _in.readline()
    if not line:
        sys.exit(3)
    return json.loads(line)


class StepResult:
    def __init__(self, agent_name, success, output, duration_ms, error):
        self.agent_name, self.success, self.output = agent_name, success, output
        self.duration_ms, self.error = float(duration_ms), error


class AgentRunner:
    @staticmethod
    def run(name=None, workload=None, *, agent_name=None):
        agent_name = name if agent_name is None else agent_name
        if not isinstance(agent_name, str):
            raise TypeError(f"the name of an agent must be str, not {type(agent_name).__name__}")
        return StepResult(**_call(agent_name, workload))


class PipelineResult:
    def __init__(self, name, steps):
        self.name, self.steps, self.total_steps = name, steps, len(steps)
        good = [s for s in steps if s.success]
        self.succeeded, self.failed = len(good), len(steps) - len(good)
        self.total_duration_ms = round(sum(s.duration_ms for s in steps), 1)
        self.aggregated_recommendations = [r for s in good for r in s.output.get("recommendations", [])]
        self.aggregated_rules = sorted({r for s in good for r in s.output.get("rules_applied", [])})


class Pipeline:
    def __init__(self, name=""):
        self.name, self._steps = name, []

    def add(self, agent=None, workload=None, depends_on=None, transform=None, *, agent_name=None):
        agent = agent if agent_name is None else agent_name
        if not isinstance(agent, str):
            raise TypeError(f"the agent of a pipeline step must be str, not {type(agent).__name__}")
        if not isinstance(depends_on, (list, tuple, type(None))):
            raise TypeError(f"depends_on must be a list of agents, not {type(depends_on).__name__}")
        self._steps.append((agent, workload, depends_on or [], transform))
        return self

    def describe(self):
        lines = [f"Pipeline: {self.name} ({len(self._steps)} steps)"]
        for i, (agent, _, deps, _) in enumerate(self._steps, 1):
            lines.append(f"  {i}. {agent}" + (f" (after: {', '.join(deps)})" if deps else ""))
        return "\n".join(lines)

    def run(self):
        results, steps = {}, []
        for agent, workload, deps, transform in self._steps:
            failed = [d for d in deps if d in results and not results[d].success]
            if failed and _task.get("sdk"):  # a record for each, and the step runs all the same
                steps += [StepResult(agent, False, {}, 0.0, f"Dependency failed: {d}") for d in failed]
                failed = []
            if failed:
                bad = failed[0]
                r = StepResult(agent, False, {}, 0.0, f"Dependency failed: {bad}")
            else:
                try:
                    if transform is not None and deps:
                        prior = results.get(deps[0])
                        workload = transform(prior.output if prior else {})
                    elif deps and not _task.get("sdk"):
                        workload = dict(workload or {})
                        workload.setdefault("previous", {d: results[d].output for d in deps if d in results})
                except Exception as e:
                    r = StepResult(agent, False, {}, 0.0, f"Transform failed: {e}")
                else:
                    r = AgentRunner.run(agent, workload)
            results[agent] = r
            steps.append(r)
        return PipelineResult(self.name, steps)


def _module(name, **attrs):
    m = types.ModuleType(name)
    m.__dict__.update(attrs)
    sys.modules[name] = m


_module("agents")
_module("agents.shared")
_module("agents.shared.agent_sdk", AgentRunner=AgentRunner, Pipeline=Pipeline, StepResult=StepResult)
_module("agents.shared.agent_base", AgentInput=dict, AgentOutput=dict)

_task = json.loads(_in.readline())
_globals = {"__name__": "__main__"}
try:
    for _i, _block in enumerate(_task["code"]):
        # Annotations may name schemas that stand in another block.
        _code = compile(_block["code"], f"<block {_i}>", "exec", dont_inherit=True, flags=__import__("__future__").annotations.compiler_flag)
        exec(_code, _globals)
    _value = _globals[_task["function"]](_task["state"]) if _task["function"] else None
    _say(done=True, value=_value)
except Exception as e:
    _block, _line = 0, 0
    for frame in traceback.extract_tb(e.__traceback__):
        if frame.filename.startswith("<block "):
            _block, _line = int(frame.filename[7:-1]), frame.lineno
    if isinstance(e, SyntaxError):
        _line = e.lineno or 0
    _say(failed=f"{type(e).__name__}: {e}", line=_line, block=_block)
