import base64
import hashlib
import hmac
import json

from agents.shared.agent_sdk import AgentRunner


def fingerprint(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def run(state):
    marks = {r["id"]: fingerprint(r)[:12] for r in state["records"]}
    signed = hmac.new(b"key", state["text"].encode("utf-8"), hashlib.sha1).hexdigest()
    print(signed, hashlib.md5(b"", usedforsecurity=False).hexdigest(), base64.b64encode(bytes(range(6))).decode())
    print(b"caf\xc3\xa9".decode(), "café".encode("latin-1"), int.from_bytes(b"\x01\x02", "big"))
    AgentRunner.run("plain", {"marks": marks})
    return {"report": marks, "list": sorted(set(marks.values()))}
