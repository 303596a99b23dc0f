# Prints the modules of the interpreter, one per line, with the names in those that code often uses.
import builtins, importlib, pkgutil, sys

NAMED = """abc ast base64 bisect calendar collections collections.abc contextlib copy csv dataclasses datetime decimal
difflib enum fractions functools hashlib heapq hmac html inspect io itertools json keyword logging math numbers operator
pprint random re statistics string textwrap time traceback types typing unicodedata urllib.parse uuid zlib""".split()
# Classes whose attributes are known. Those of an instance are the same.
CLASSES = """collections.Counter collections.OrderedDict collections.defaultdict collections.deque datetime.date
datetime.datetime datetime.time datetime.timedelta datetime.timezone decimal.Decimal fractions.Fraction pathlib.Path
re.Match re.Pattern uuid.UUID""".split()
# Of no use to node code.
USELESS = {"_pyrepl", "antigravity", "idlelib", "this", "tkinter", "turtle", "turtledemo", "test", "lib2to3", "ensurepip"}


def names(thing):
    return " ".join(sorted(n for n in dir(thing) if not n.startswith("__")))


modules = set(sys.builtin_module_names) | {"__future__", "os.path"}
for info in pkgutil.walk_packages([p for p in sys.path if p.endswith(".zip") or p.endswith("3.12")], onerror=lambda n: None):
    modules.add(info.name)
for name in sorted(modules | set(NAMED)):
    if name.split(".")[0] in USELESS or "." not in name and name.startswith("_") and name != "__future__":
        continue
    print(f"{name}:{' ' + names(importlib.import_module(name)) if name in NAMED else ''}".rstrip())
print("builtins:", " ".join(sorted(dir(builtins))))
for name in "str dict list tuple set".split():
    print(f"builtins.{name}:", names(getattr(builtins, name)))
for name in CLASSES:
    module, _, cls = name.rpartition(".")
    print(f"class {name}:", names(getattr(importlib.import_module(module), cls)))
