import json
v = {"a": [1, 2.5, None, True, False], "b": {"c": "é\n\"x\" \\ /", "d": []}, "e": {}, "1": "one"}
print(json.dumps(v))
print(json.dumps(v, indent=2))
print(json.dumps(v, sort_keys=True, separators=(",", ":")))
print(json.dumps(v, ensure_ascii=False, indent=1))
print(json.dumps([1, (2, 3), "x"]), json.dumps({1: 2, None: 3, True: 4, 1.5: 5}), json.dumps("\u2028\x01\x7f😀"), json.dumps(1e100), json.dumps(1.0), json.dumps(10 ** 20), json.dumps([]), json.dumps({}, indent=2))
print(json.loads('{"a": [1, 2.0, null, true], "b": "\\u00e9\\ud83d\\ude00"}'), json.loads("3"), json.loads(' "x" '), json.loads("1e2"), json.loads("-0"), json.loads('{"a":1,"a":2}'))
for bad in ("", "{", "[1,]", "{'a': 1}", "nul", "1 2", '{"a" 1}', '"abc'):
    try:
        print(json.loads(bad))
    except ValueError:
        print("not JSON")
try:
    json.dumps({1, 2})
except TypeError as e:
    print(e)
try:
    json.dumps({(1, 2): 3})
except TypeError as e:
    print(e)
print(json.loads(json.dumps(v)) == v, json.dumps(json.loads("[1.50, 1E3, 12345678901234567890]")), json.dumps(float("inf")), json.dumps("</script>"))
