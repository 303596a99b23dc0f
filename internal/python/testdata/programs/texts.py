s = "  The quick, brown fox  "
print(s.strip(), s.lstrip() + "|", s.rstrip() + "|", s.upper(), s.lower(), s.strip().title(), s.strip().capitalize(), s.strip().swapcase())
print("a,b,,c".split(","), "a b  c ".split(), "a,b,c".split(",", 1), "a,b,c".rsplit(",", 1), "x\ny\r\nz".splitlines(), "".split(), "".split(","), "k=v=w".partition("="), "k=v=w".rpartition("="), "none".partition("="))
print("abc".find("c"), "abc".find("z"), "abcabc".rfind("b"), "abc".index("b"), "banana".count("an"), "banana".replace("a", "o"), "banana".replace("a", "o", 2), "x".replace("", "-"), "aaa".count("aa"))
print("abc".startswith("ab"), "abc".endswith(("x", "c")), "12".isdigit(), "1a".isalnum(), "ab".isalpha(), " ".isspace(), "AB".isupper(), "ab".islower(), "".isdigit(), "3.5".isdigit(), "12".isnumeric(), "x".isdecimal())
print("-".join(["a", "b"]), "".join([]), ",".join("abc"), "ab" * 3, "ab" + "cd", "a" "b", "x".center(5, "*"), "x".ljust(3) + "|", "x".rjust(3), "7".zfill(3), "-7".zfill(4), "ab"[1], "ab"[-1])
print("abc".removeprefix("a"), "abc".removesuffix("c"), "abc".removeprefix("x"), "xxaxx".strip("x"), "abcba".strip("ab"), "tEST".casefold(), "ab".encode if False else "", "a-b_c".translate if False else "")
print("é".upper(), "straße".upper(), "ǅ".lower(), "日本語"[1], len("日本語"), "naïve".title(), "it's o'clock".title(), "ÀÉ".lower(), "😀x"[0], "😀x"[::-1])
print("line1\nline2", "tab\there", 'quote"s', "back\\slash", r"raw\n", "\x41\u00e9", """tri
ple""", repr("a\tb\n\x00\x7f\xa0é😀\\"), "\
joined")
for bad in (lambda: "abc".index("z"), lambda: "a" + 1, lambda: "a" * "b", lambda: "abc"[5], lambda: ",".join([1]), lambda: "a".nope(), lambda: "a".split(""), lambda: "a" - "b", lambda: "a".center("x"), lambda: "abc".replace("a")):
    try:
        print(bad())
    except Exception as e:
        print(e)
print("a" < "B", "apple" < "banana", "" < "a", "Z" < "a", "10" < "9", sorted("bAc"), max("hello"), "".join(sorted("hello")), "".join(reversed("abc")), list("hi"), "a" in "", "lo w" in "hello world")
print([w.strip(".,!").lower() for w in "Hi, there! Ok.".split()], " ".join(w.capitalize() for w in "the end of it".split()), "%s" % "x", "a{}c".format("b"), str(["a"]), "x".isupper(), bool(""), bool(" "))
