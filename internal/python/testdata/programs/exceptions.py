log = []
def attempt(fn, *args):
    try:
        log.append("try")
        v = fn(*args)
    except ZeroDivisionError:
        log.append("zero")
        return "zero"
    except (KeyError, IndexError) as e:
        log.append("lookup")
        return f"lookup {e!r}"
    except ValueError as e:
        return "value " + str(e)
    except Exception as e:
        return f"other {e}"
    else:
        log.append("else")
        return v
    finally:
        log.append("finally")
print(attempt(lambda: 1 / 0), attempt(lambda: {}["k"]), attempt(lambda: [][1]), attempt(lambda: int("a")), attempt(lambda: None.x), attempt(lambda: 5))
print(log)
def reraise():
    try:
        raise ValueError("first")
    except ValueError as e:
        raise RuntimeError(f"second after {e}") from e
try:
    reraise()
except RuntimeError as e:
    print(e, e.args, isinstance(e, Exception), isinstance(e, ValueError))
def early():
    for i in range(3):
        try:
            if i == 1:
                return i
            continue
        finally:
            print("cleanup", i)
print(early())
def swallow():
    try:
        raise KeyError("lost")
    finally:
        return "kept"
print(swallow())
try:
    raise ValueError
except ValueError as e:
    print(repr(e), str(e) == "", e.args)
try:
    raise Exception("a", 2)
except Exception as e:
    print(e, repr(e), e.args)
try:
    try:
        1 / 0
    finally:
        print("inner")
except ArithmeticError as e:
    print("arith", e)
try:
    {"a": {}}["a"]["b"]["c"]
except LookupError as e:
    print("lookup", e)
n = 0
while True:
    try:
        n += 1
        if n < 3:
            raise ValueError(n)
        break
    except ValueError as e:
        print("again", e)
print(n)
try:
    e
except NameError as x:
    print(x)
try:
    int(None)
except TypeError as e:
    print(str(e)[:30])
try:
    raise KeyError("quoted")
except KeyError as e:
    print(str(e), f"{e}", e.args[0])
