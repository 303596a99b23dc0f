import json
import math
import operator
from typing import Any, Dict, List, Optional, TypedDict, Annotated

class S(TypedDict):
    """A schema."""
    a: int
    b: Annotated[List[str], operator.add]

s: S = {"a": 1, "b": []}
print(s, operator.add([1], [2]), sorted([{"k": 2}, {"k": 1}], key=operator.itemgetter("k")))
def f(x: Optional[int] = None, *, y: Dict[str, Any] = {}) -> List[int]:
    return [x, y]
print(f(), f(1, y={"a": 2}))
print(json.dumps({"a": [1, 2.0, None, True], "b": "é\n\"q\""}), json.dumps([1, {"x": 2}], indent=2), json.dumps({"b": 1, "a": 2}, sort_keys=True), json.dumps("é", ensure_ascii=False), json.dumps([1, 2], separators=(",", ":")))
print(json.loads('{"b": [1, 2.5, "x", null, true], "a": {}}'), json.loads("1e3"), json.loads("12"))
try:
    json.loads("{bad")
except ValueError:
    print("not JSON")
print(math.floor(2.7), math.ceil(2.1), math.floor(-2.5), math.sqrt(16), math.pi, math.log10(1000), math.isnan(float("nan")), math.inf)
