# Runs the code of a workflow, in CPython for WebAssembly or in a python3. It calls agents
# and reports the end over standard input and output, in lines of JSON. The first line that
# it reads is the task: code, function, state, fields, sdk. Run "go run ./internal/cpython/build"
# after every change.
import __future__, dataclasses, io, json, sys, traceback, types


_in = _out = None
_task = {}


class _Output(io.StringIO):
    def write(self, text):
        count = super().write(text)
        if self.tell() > 1 << 20:
            _send()
        return count


def _taken(stream):
    text = stream.getvalue()
    stream.seek(0)
    stream.truncate()
    return text


def _send(**message):
    message["printed"], message["logged"] = _taken(sys.stdout), _taken(sys.stderr)
    line = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    _out.buffer.write(line.encode() + b"\n")
    _out.flush()


def _call(agent, workload):
    _send(call=agent, workload=workload)
    line = _in.readline()
    if not line:
        raise SystemExit("the host has closed the connection")
    return json.loads(line)


@dataclasses.dataclass
class AgentInput:
    workload: dict
    options: dict = dataclasses.field(default_factory=dict)
    context: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class AgentOutput:
    recommendations: list
    rules_applied: list
    meta_insight: str
    analysis_data: dict = dataclasses.field(default_factory=dict)
    anti_patterns: list = dataclasses.field(default_factory=list)
    agent_metadata: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class StepResult:
    agent_name: str
    success: bool
    output: dict
    duration_ms: float
    error: str = None


class AgentRunner:
    @staticmethod
    def run(name=None, workload=None, *, agent_name=None):
        agent_name = name if agent_name is None else agent_name
        if not isinstance(agent_name, str):
            raise TypeError(f"the name of an agent must be str, not {type(agent_name).__name__}")
        if isinstance(workload, AgentInput):
            more = {k: v for k, v in (("options", workload.options), ("context", workload.context)) if v}
            workload = more | workload.workload
        reply = StepResult(**_call(agent_name, workload))
        reply.duration_ms = float(reply.duration_ms)
        return reply


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
        if not isinstance(name, str):
            raise TypeError(f"the name of a pipeline must be str, not {type(name).__name__}")
        self.name, self._steps = name, []

    def add(self, agent=None, workload=None, depends_on=None, transform=None, *, agent_name=None):
        agent = agent if agent_name is None else agent_name
        if not isinstance(agent, str):
            raise TypeError(f"the agent of a pipeline step must be str, not {type(agent).__name__}")
        if not isinstance(depends_on, (list, tuple, type(None))):
            raise TypeError(f"depends_on must be a list of agents, not {type(depends_on).__name__}")
        self._steps.append((agent, workload, list(depends_on or []), transform))
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
            if failed and _task["sdk"]:  # N18: a record for each, and the step runs all the same
                steps += [StepResult(agent, False, {}, 0.0, f"Dependency failed: {d}") for d in failed]
                failed = []
            if failed:
                result = StepResult(agent, False, {}, 0.0, f"Dependency failed: {failed[0]}")
            else:
                result = self._step(agent, workload, deps, transform, results)
            results[agent] = result
            steps.append(result)
        return PipelineResult(self.name, steps)

    def _step(self, agent, workload, deps, transform, results):
        if deps and transform is not None:
            prior = results.get(deps[0])
            try:
                workload = transform(prior.output if prior else {})
            except Exception as e:
                return StepResult(agent, False, {}, 0.0, f"Transform failed: {e}")
        elif deps and not _task["sdk"] and isinstance(workload, (dict, type(None))):  # N17
            workload = {"previous": {d: results[d].output for d in deps if d in results}} | (workload or {})
        return AgentRunner.run(agent, workload)


def _typed(value, kind):
    """Return a value with the type of its annotation: JSON may have lost that a float is one."""
    kind, _, element = kind.removesuffix("?").removesuffix("]").partition("[")
    if kind == "float" and type(value) is int:
        return float(value)
    if kind == "list" and element and isinstance(value, list):
        return [_typed(v, element) for v in value]
    if kind == "dict" and element and isinstance(value, dict):
        return {k: _typed(v, element) for k, v in value.items()}
    return value


def _module(name, **attributes):
    module = sys.modules[name] = types.ModuleType(name)
    module.__dict__.update(attributes)
    return module


def _place(error):
    """Return the block and the line of the code that raised an exception."""
    block = line = 0
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.startswith("<block "):
            block, line = int(frame.filename[7:-1]), frame.lineno
    if isinstance(error, SyntaxError) and (error.filename or "").startswith("<block "):
        block, line = int(error.filename[7:-1]), error.lineno or 0
    return {"block": block, "line": line}


_module("agents")
_module("agents.shared")
_module("agents.shared.agent_sdk", AgentRunner=AgentRunner, Pipeline=Pipeline, StepResult=StepResult,
        PipelineResult=PipelineResult)
_module("agents.shared.agent_base", AgentInput=AgentInput, AgentOutput=AgentOutput)


def _run():
    # The Execution block is the main program. In the graph, nothing is.
    code = _module("workflow" if _task["function"] else "__main__")
    for i, block in enumerate(_task["code"]):
        # Annotations are not evaluated: they may name the schema, which is in another block.
        compiled = compile(block["code"], f"<block {i}>", "exec", dont_inherit=True,
                           flags=__future__.annotations.compiler_flag)
        exec(compiled, code.__dict__)
    if not _task["function"]:
        return None
    state = {k: _typed(v, (_task["fields"] or {}).get(k, "")) for k, v in _task["state"].items()}
    value = getattr(code, _task["function"])(state)
    if value is not None and not isinstance(value, dict):
        raise TypeError(f"the function must return a dict of the fields that it changes, not {type(value).__name__}")
    for field, one in (value or {}).items():
        try:
            json.dumps(one, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as e:
            raise TypeError(f"the field {field!r} cannot be stored as JSON: {e}") from None
    return value


def main():
    global _in, _out
    _in, _out = sys.stdin, sys.stdout
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(), _Output(), _Output()
    _task.update(json.loads(_in.readline()))
    try:
        _send(done=True, value=_run())
    except BaseException as e:
        _send(failed="".join(traceback.format_exception_only(e)[-1:]).strip(), **_place(e))


if __name__ == "__main__":
    main()
